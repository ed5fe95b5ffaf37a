"""``block_directories``: deletes the block directories of runs whose process has ended, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from penstock.blocks import block_directories
from penstock.blocks.block_directories import Process, claim, executor_process, sweep


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"penstock-{os.getuid()}"


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
    """A process that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = Process.of(child.pid)
        child.kill()
    return process


def test_directory_is_deleted_once_its_process_is_gone(
    tmp_path: Path, notes: Path, child: subprocess.Popen[bytes]
) -> None:
    directory = run_directory(tmp_path)
    claim(directory, Process.of(child.pid))
    assert sweep() == []
    child.kill()
    child.wait()
    assert sweep() == [directory]
    assert not directory.exists()
    assert list(notes.iterdir()) == []
    assert sweep() == []


def test_directory_of_another_container_stays_for_a_week_after_its_last_change(tmp_path: Path, notes: Path) -> None:
    directory = run_directory(tmp_path)
    # Its pid is free here, and may be in use there.
    claim(directory, evolve(dead(), namespace="another boot pid:[1]"))
    # Another owner of the directory has ended.
    claim(directory, dead())
    assert sweep() == []
    assert directory.exists()
    week_ago = time.time() - 7 * 86_400 - 1
    for path in (*directory.iterdir(), directory):
        os.utime(path, (week_ago, week_ago))
    assert sweep() == [directory]
    assert list(notes.iterdir()) == []


def test_shared_directory_stays_while_one_process_lives(
    tmp_path: Path, notes: Path, child: subprocess.Popen[bytes]
) -> None:
    directory = run_directory(tmp_path)
    claim(directory, dead())
    claim(directory, Process.of(child.pid))
    assert sweep() == []
    assert directory.exists()
    assert len(list(notes.iterdir())) == 1
    child.kill()
    child.wait()
    assert sweep() == [directory]


def test_process_with_a_recycled_pid_is_another_process(tmp_path: Path, notes: Path) -> None:
    directory = run_directory(tmp_path)
    other = evolve(Process.of(os.getpid()), create_time=1.0)
    assert not other.is_alive
    claim(directory, other)
    assert sweep() == [directory]


def test_neighbouring_files_stay(tmp_path: Path, notes: Path) -> None:
    directory, beside = run_directory(tmp_path), run_directory(tmp_path, "app-2-efgh")
    (tmp_path / "penstock" / "mine.txt").write_text("keep")
    claim(directory, dead())
    sweep()
    assert sorted(path.name for path in (tmp_path / "penstock").iterdir()) == ["app-2-efgh", "mine.txt"]
    assert beside.exists()


@pytest.mark.parametrize("forged", ["other parent", "no mark", "other mark", "link", "relative", "a file"])
def test_directory_that_is_not_the_runs_own_is_never_deleted(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    monkeypatch.chdir(tmp_path)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    directory = run_directory(tmp_path)
    claim(directory, dead())
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
    assert sweep() == []
    assert (precious / "thesis.txt").read_text() == "years of work"
    assert (directory / "stream-0" / "input-0-1-0.arrow").exists()
    assert list(notes.iterdir()) == []


@pytest.mark.parametrize("garbage", ["", "{", "[]", '{"directory": "/"}', '{"directory": "/", "owner": {"pid": 1}}'])
def test_malformed_note_is_deleted(notes: Path, garbage: str) -> None:
    notes.mkdir()
    (notes / "x.json").write_text(garbage)
    assert sweep() == []
    assert list(notes.iterdir()) == []


def test_note_of_a_missing_directory_is_deleted(tmp_path: Path, notes: Path) -> None:
    directory = run_directory(tmp_path)
    claim(directory, dead())
    (tmp_path / "penstock").rename(tmp_path / "moved")
    assert sweep() == []
    assert list(notes.iterdir()) == []
    assert (tmp_path / "moved" / "app-1-abcd").exists()


def test_notes_folder_of_another_user_is_not_used(tmp_path: Path, notes: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    notes.symlink_to(tmp_path / "elsewhere")
    directory = run_directory(tmp_path)
    claim(directory, dead())
    assert sweep() == []
    assert directory.exists()


def test_setting_the_clock_makes_no_process_dead() -> None:
    myself = Process.of(os.getpid())
    assert evolve(myself, create_time=myself.create_time - 60).is_alive


def test_process_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ProcessLookupError, match="no process"):
        Process.of(dead().pid)


def test_directory_of_a_dead_executor_stays_for_an_hour(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_directories, "executor_process", dead)
    directory = run_directory(tmp_path)
    claim(directory, None)
    assert sweep() == []
    for path in (directory, *directory.iterdir()):
        os.utime(path, (0, 0))
    assert sweep() == [directory]


def test_each_executor_of_a_run_has_a_note(tmp_path: Path, notes: Path, child: subprocess.Popen[bytes]) -> None:
    here, there = run_directory(tmp_path / "a"), run_directory(tmp_path / "b")
    for _ in range(2):
        claim(here, Process.of(child.pid))
    claim(there, dead())
    assert len(list(notes.iterdir())) == 2
    assert sweep() == [there]
    assert here.exists()


def test_zombie_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = Process.of(child.pid)
        child.kill()
        # It has ended, but its parent has not waited for it: a zombie.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not process.is_alive


def test_without_a_jvm_among_its_parents_the_direct_parent_counts() -> None:
    assert executor_process() == Process.of(os.getppid())


def test_note_that_another_program_deletes_meanwhile_does_not_stop_the_sweep(tmp_path: Path, notes: Path) -> None:
    directory = run_directory(tmp_path)
    claim(directory, dead())
    # Listed, and gone when it is read.
    (notes / "a-1.json").symlink_to(notes / "taken")
    assert sweep() == [directory]
    assert not directory.exists()


def test_file_that_is_deleted_meanwhile_does_not_make_a_directory_old(tmp_path: Path, notes: Path) -> None:
    directory = run_directory(tmp_path)
    (directory / "gone").symlink_to(directory / "nowhere")
    claim(directory, None)
    (note,) = notes.iterdir()
    content = json.loads(note.read_text())
    note.write_text(json.dumps({**content, "owner": {**content["owner"], "create_time": 1}}))
    assert sweep() == []
    assert directory.exists()
