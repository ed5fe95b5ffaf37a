"""What a run that was killed left behind is swept when the next one starts; nothing else is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from penstock.blocks import leftovers
from penstock.blocks.leftovers import Process, claim, executor_process, sweep

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes cannot be told apart here")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child
        child.kill()


def run_directory(root: Path, name: str = "app-1-abcd") -> Path:
    directory = root / "penstock" / name
    (directory / "stream-0").mkdir(parents=True)
    (directory / "stream-0" / "input-0-1-0.arrow").write_text("records")
    return directory


def dead() -> Process:
    """A process that is no more."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = Process.of(child.pid)
        child.kill()
    assert process is not None
    return process


def test_blocks_of_a_run_whose_process_lives_stay(tmp_path: Path, notes: Path, child: subprocess.Popen[bytes]) -> None:
    directory = run_directory(tmp_path)
    claim(directory, Process.of(child.pid), notes)
    assert sweep(notes) == []
    child.kill()
    child.wait()
    assert sweep(notes) == [directory]
    assert not directory.exists()
    assert list(notes.iterdir()) == []
    assert sweep(notes) == []


def test_a_directory_that_two_share_stays_while_one_of_them_lives(
    tmp_path: Path, notes: Path, child: subprocess.Popen[bytes]
) -> None:
    directory = run_directory(tmp_path)
    claim(directory, dead(), notes)
    claim(directory, Process.of(child.pid), notes)
    assert sweep(notes) == []
    assert directory.exists()
    assert len(list(notes.iterdir())) == 1
    child.kill()
    child.wait()
    assert sweep(notes) == [directory]


def test_a_process_that_only_has_the_same_number_is_another(tmp_path: Path, notes: Path) -> None:
    directory = run_directory(tmp_path)
    myself = Process.of(os.getpid())
    assert myself is not None
    for other in (evolve(myself, started="1"), evolve(myself, boot="another")):
        assert not other.is_alive
    claim(directory, evolve(myself, started="1"), notes)
    assert sweep(notes) == [directory]


def test_what_is_beside_it_stays(tmp_path: Path, notes: Path) -> None:
    directory, beside = run_directory(tmp_path), run_directory(tmp_path, "app-2-efgh")
    (tmp_path / "penstock" / "mine.txt").write_text("keep")
    claim(directory, dead(), notes)
    sweep(notes)
    assert sorted(path.name for path in (tmp_path / "penstock").iterdir()) == ["app-2-efgh", "mine.txt"]
    assert beside.exists()


@pytest.mark.parametrize("forged", ["other parent", "no mark", "other mark", "link", "relative", "a file"])
def test_what_is_not_a_run_s_own_is_never_deleted(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    monkeypatch.chdir(tmp_path)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    directory = run_directory(tmp_path)
    claim(directory, dead(), notes)
    (note,) = notes.iterdir()
    target = directory
    if forged == "other parent":
        target = precious
        (precious / ".penstock-run").write_text("precious")
    elif forged == "no mark":
        (directory / ".penstock-run").unlink()
    elif forged == "other mark":
        (directory / ".penstock-run").write_text("app-9")
    elif forged == "link":
        target = tmp_path / "penstock" / "precious"
        target.symlink_to(precious)
        (precious / ".penstock-run").write_text("precious")
    elif forged == "relative":
        target = Path("penstock/app-1-abcd")
    elif forged == "a file":
        target = tmp_path / "penstock" / "file"
        target.write_text("x")
    content = json.loads(note.read_text())
    note.write_text(json.dumps(content | {"directory": str(target)}))
    assert sweep(notes) == []
    assert (precious / "thesis.txt").read_text() == "years of work"
    assert (directory / "stream-0" / "input-0-1-0.arrow").exists()
    assert list(notes.iterdir()) == []


@pytest.mark.parametrize("garbage", ["", "{", "[]", '{"directory": "/"}', '{"directory": "/", "owner": {"pid": 1}}'])
def test_a_note_that_is_none_is_removed(notes: Path, garbage: str) -> None:
    notes.mkdir()
    (notes / "x.json").write_text(garbage)
    assert sweep(notes) == []
    assert list(notes.iterdir()) == []


def test_a_directory_that_is_gone_already_is_forgotten(tmp_path: Path, notes: Path) -> None:
    directory = run_directory(tmp_path)
    claim(directory, dead(), notes)
    (tmp_path / "penstock").rename(tmp_path / "moved")
    assert sweep(notes) == []
    assert list(notes.iterdir()) == []
    assert (tmp_path / "moved" / "app-1-abcd").exists()


def test_a_folder_of_somebody_else_s_is_not_used(tmp_path: Path, notes: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    notes.symlink_to(tmp_path / "elsewhere")
    directory = run_directory(tmp_path)
    claim(directory, dead(), notes)
    assert sweep(notes) == []
    assert directory.exists()


def test_where_processes_cannot_be_told_apart_nothing_is_noted(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_PROC", tmp_path / "no proc")
    claim(run_directory(tmp_path), None, notes)
    assert not notes.exists()


def test_a_driver_elsewhere_may_read_for_an_hour_what_an_executor_left(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "executor_process", dead)
    directory = run_directory(tmp_path)
    claim(directory, None, notes)
    assert sweep(notes) == []
    for path in (directory, *directory.iterdir()):
        os.utime(path, (0, 0))
    assert sweep(notes) == [directory]


def test_two_executors_of_one_run_are_noted_each(tmp_path: Path, notes: Path, child: subprocess.Popen[bytes]) -> None:
    here, there = run_directory(tmp_path / "a"), run_directory(tmp_path / "b")
    for _ in range(2):
        claim(here, Process.of(child.pid), notes)
    claim(there, dead(), notes)
    assert len(list(notes.iterdir())) == 2
    assert sweep(notes) == [there]
    assert here.exists()


def test_a_zombie_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = Process.of(child.pid)
        child.kill()
        # Nobody has asked for its end yet.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process is not None
        assert not process.is_alive


def test_without_a_jvm_above_the_parent_counts() -> None:
    process = executor_process()
    assert process is not None
    assert process.is_alive


def test_a_note_that_another_program_took_at_the_same_time_keeps_nobody_from_sweeping(
    tmp_path: Path, notes: Path
) -> None:
    directory = run_directory(tmp_path)
    claim(directory, dead(), notes)
    # Listed, and gone when it is read.
    (notes / "a-1.json").symlink_to(notes / "taken")
    assert sweep(notes) == [directory]
    assert not directory.exists()


def test_a_file_that_goes_while_ages_are_asked_makes_nothing_old(tmp_path: Path, notes: Path) -> None:
    directory = run_directory(tmp_path)
    (directory / "gone").symlink_to(directory / "nowhere")
    claim(directory, None, notes)
    (note,) = notes.iterdir()
    content = json.loads(note.read_text())
    note.write_text(json.dumps({**content, "owner": {**content["owner"], "started": 1}}))
    assert sweep(notes) == []
    assert directory.exists()
