"""The receiver ``file`` under a real supervisor stores each appended line once and in order."""

from __future__ import annotations

import json
import os
import pickle
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock_file import FileReceiver, FileReceiverOptions, file_watcher

if TYPE_CHECKING:
    from penstock_testing import ReceiverHarness

Launch = Callable[..., "ReceiverHarness"]


def follow(path: Path | str, **options: Any) -> FileReceiver:
    return FileReceiver(FileReceiverOptions(path=str(path), **{"poll_interval": 0.005, **options}))


def has_records(launched: ReceiverHarness, count: int) -> bool:
    return len(launched.records) >= count


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder / "app.log"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that have left their place are let go of soon."""
    monkeypatch.setattr(file_watcher, "_LEAVE_S", 0.05)


def test_lines_arrive_as_they_are_appended(launch: Launch, log: Path) -> None:
    append(log, "one\ntwo\r\n")
    launched = launch(follow(log))
    launched.until_records(["one", "two"])
    append(log, "\nthree\nfo")
    launched.until_records(["one", "two", "", "three"])
    append(log, "ur\n")
    launched.until_records(["one", "two", "", "three", "four"])
    assert launched.errors == []


def test_concurrent_writer_loses_no_line(launch: Launch, log: Path) -> None:
    lines = [f"line {number} " + "x" * (number % 50) for number in range(20_000)]

    def write() -> None:
        with log.open("w", buffering=1000) as file:
            for line in lines:
                file.write(line + "\n")

    launched = launch(follow(log))
    writer = threading.Thread(target=write)
    writer.start()
    launched.until_records(lines)
    writer.join()
    assert [error for error in launched.errors if "waiting for one" not in error] == []


def until_scanned(launched: Any) -> None:
    # Nothing public shows the first scan: it stores no record.
    launched.until(lambda: launched.receiver._positions)


def test_start_at_end_skips_existing_lines(launch: Launch, log: Path) -> None:
    append(log, "old\nbegun ")
    launched = launch(follow(log, start="end"))
    until_scanned(launched)
    append(log, "before\nnew\n")
    launched.until_records(["begun before", "new"])
    append(log.with_name("later"), "not followed\n")


def test_files_created_later_are_read_from_the_beginning(launch: Launch, log: Path) -> None:
    append(log, "old\n")
    launched = launch(follow(log.parent, start="end"))
    until_scanned(launched)
    append(log.with_name("b.log"), "new\n")
    launched.until_records(["new"])


def test_missing_file_is_reported_once_and_awaited(launch: Launch, log: Path) -> None:
    launched = launch(follow(log))
    launched.until_error(f"no file at {log}: waiting for one")
    append(log, "here\n")
    launched.until_records(["here"])
    assert len(launched.errors) == 1


@pytest.mark.parametrize("path", ["logs", "logs/*.log", "l*/app*", "logs/[ab]*.log"])
def test_all_files_of_a_directory_are_followed(launch: Launch, tmp_path: Path, log: Path, path: str) -> None:
    append(log, "1\n")
    append(log.with_name(".hidden.log"), "no\n")
    launched = launch(follow(tmp_path / path))
    launched.until_records(["1"])
    append(log.with_name("app2.log"), "2\n")
    launched.until_records(["1", "2"])
    append(log, "3\n")
    launched.until_records(["1", "2", "3"])


def test_more_files_than_open_descriptors_are_followed(
    launch: Launch, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watcher, "_OPEN", 3)
    paths = [log.with_name(f"{number:02}") for number in range(20)]
    for path in paths:
        append(path, f"a{path.name}\n")
    launched = launch(follow(log.parent))
    expected = [f"a{path.name}" for path in paths]
    launched.until_records(expected)
    for path in reversed(paths):
        append(path, f"b{path.name}\n")
    launched.until_count(40)
    assert launched.count == 40
    assert sorted(launched.records[20:]) == [f"b{path.name}" for path in paths]
    opened = [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]
    assert len([name for name in opened if str(log.parent) in name]) <= 7


def test_block_carries_the_offsets(launch: Launch, log: Path) -> None:
    append(log, "one\ntwo\nthr")
    launched = launch(follow(log))
    launched.until_records(["one", "two"])
    assert launched.blocks[0].metadata == {str(log): 8}


# -- rotation and truncation --


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_rotated_file_is_followed(launch: Launch, log: Path, pattern: str) -> None:
    append(log, "1\n")
    launched = launch(follow(log.with_name(pattern)))
    launched.until_records(["1"])
    expected = ["1"]
    with log.open("ab", buffering=0) as old:
        old.write(b"2\nrest")
        log.rename(log.with_name("app.log.1"))
        append(log, "3\n")
        old.write(b" of it\n")
        expected += ["2", "rest of it", "3"]
        launched.until(lambda: len(launched.records) >= 4)
    assert sorted(launched.records) == sorted(expected)
    records = launched.records
    assert records.index("2") < records.index("3")
    append(log, "4\n")
    launched.until_records([*records, "4"])
    assert launched.errors == []


@pytest.mark.usefixtures("soon")
def test_rest_of_a_rotated_file_is_read_first(launch: Launch, log: Path) -> None:
    append(log, "0\n")
    # So slow that what is behind is read after the rotation.
    launched = launch(follow(log), settings={"spark.streaming.receiver.maxRate": "200"})
    launched.until_records(["0"])
    lines = [str(number) for number in range(1, 100)]
    append(log, "".join(f"{line}\n" for line in lines))
    launched.until(lambda: len(launched.records) > 1)
    log.rename(log.with_name("gone"))
    append(log, "new\n")
    launched.until_records(["0", *lines, "new"])


@pytest.mark.usefixtures("soon")
def test_removed_file_is_read_to_its_end(launch: Launch, log: Path) -> None:
    append(log, "1\n")
    launched = launch(follow(log))
    launched.until_records(["1"])
    with log.open("ab", buffering=0) as old:
        old.write(b"2\n")
        log.unlink()
        old.write(b"3\nthe last, without an end")
        launched.until_records(["1", "2", "3", "the last, without an end"])
    launched.until_error("waiting for one")
    append(log, "4\n")
    launched.until_records(["1", "2", "3", "the last, without an end", "4"])


@pytest.mark.usefixtures("soon")
def test_file_that_returns_is_not_read_twice(launch: Launch, log: Path) -> None:
    append(log, "1\n")
    launched = launch(follow(log))
    launched.until_records(["1"])
    away = log.with_name("away")
    log.rename(away)
    launched.until_error("waiting for one")
    append(away, "2\n")
    away.rename(log)
    launched.until_records(["1", "2"])


@pytest.mark.parametrize("new", ["x\n", "this is longer than what was there before\n"])
def test_truncated_file_is_read_from_the_beginning(launch: Launch, log: Path, new: str) -> None:
    append(log, "one\ntwo\n")
    launched = launch(follow(log))
    launched.until_records(["one", "two"])
    log.write_text(new)
    launched.until_records(["one", "two", new.strip()])
    assert "was truncated or rewritten" in launched.errors[0]


def test_emptied_file_is_read_from_the_beginning(launch: Launch, log: Path) -> None:
    append(log, "one\ntwo\n")
    launched = launch(follow(log))
    launched.until_records(["one", "two"])
    log.write_text("")
    launched.until_error("was truncated")
    append(log, "three\n")
    launched.until_records(["one", "two", "three"])


# -- lines that cannot be stored as they are --


@pytest.mark.parametrize(("how", "text"), [("replace", ["a\ufffd"]), ("refuse", [])])
def test_line_that_is_not_utf8_is_replaced_or_dropped(launch: Launch, log: Path, how: str, text: list[str]) -> None:
    append(log, b"a\xff\nb\n")
    launched = launch(follow(log, encoding_errors=how))
    launched.until_records([*text, "b"])
    launched.until_error("lines that are not UTF-8")


def test_line_that_is_too_long_is_dropped_and_counted(launch: Launch, log: Path) -> None:
    append(log, "x" * 11 + "\nab\n" + "y" * 50)
    launched = launch(follow(log, max_line_bytes=10))
    launched.until_records(["ab"])
    append(log, "y" * 50)
    launched.until(lambda: len(launched.errors) == 2)
    append(log, "y\ncd\n")
    launched.until_records(["ab", "cd"])
    assert launched.errors[-1] == "lines longer than 10 bytes, dropped: 1 (2 in total)"


# -- launched anew --


def test_restart_continues_at_the_offsets(launch: Launch, log: Path) -> None:
    append(log, "1\n2\n")
    launched = launch(follow(log))
    launched.until_records(["1", "2"])
    launched.receiver.restart("because", delay_ms=0)
    launched.until(lambda: launched.ends)
    append(log, "3\n")
    launched.until_records(["1", "2", "3"])


def test_relaunch_without_offset_file_starts_from_the_beginning(launch: Launch, log: Path) -> None:
    receiver = pickle.dumps(follow(log))
    append(log, "1\n")
    launch(pickle.loads(receiver)).until_records(["1"])
    launch(pickle.loads(receiver)).until_records(["1"])


def test_relaunch_with_offset_file_continues(launch: Launch, log: Path, tmp_path: Path) -> None:
    receiver = pickle.dumps(follow(log, offset_file=str(tmp_path / "offsets")))
    append(log, "1\n2\nbe")
    first = launch(pickle.loads(receiver))
    first.until_records(["1", "2"])
    first.stop()
    append(log, "gun\n3\n")
    second = launch(pickle.loads(receiver))
    second.until_records(["begun", "3"])
    second.stop()
    saved = json.loads((tmp_path / "offsets").read_text())
    assert [(file["path"], file["offset"]) for file in saved["files"]] == [(str(log), log.stat().st_size)]
    third = launch(pickle.loads(receiver))
    append(log, "4\n")
    third.until_records(["4"])
    assert first.errors == second.errors == third.errors == []


def test_offset_of_the_end_is_saved_before_any_line(launch: Launch, log: Path, tmp_path: Path) -> None:
    receiver = pickle.dumps(follow(log, start="end", offset_file=str(tmp_path / "offsets")))
    append(log, "old\n")
    first = launch(pickle.loads(receiver))
    until_scanned(first)
    first.stop()
    append(log, "new\n")
    launch(pickle.loads(receiver)).until_records(["new"])


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_rotation_between_launches_loses_no_line(launch: Launch, log: Path, tmp_path: Path, pattern: str) -> None:
    receiver = pickle.dumps(follow(log.with_name(pattern), offset_file=str(tmp_path / "offsets")))
    append(log, "1\n")
    first = launch(pickle.loads(receiver))
    first.until_records(["1"])
    first.stop()
    append(log, "2\n")
    log.rename(log.with_name("app.log.1"))
    append(log, "3\n")
    second = launch(pickle.loads(receiver))
    second.until(lambda: len(second.records) == 2)
    assert sorted(second.records) == ["2", "3"]
    if pattern == "app.log":
        assert second.records == ["2", "3"]
    assert second.errors == []


def test_vanished_file_is_reported(launch: Launch, log: Path, tmp_path: Path) -> None:
    receiver = pickle.dumps(follow(log, offset_file=str(tmp_path / "offsets")))
    append(log, "1\n")
    first = launch(pickle.loads(receiver))
    first.until_records(["1"])
    first.stop()
    log.rename(tmp_path / "elsewhere")
    append(log, "2\n")
    second = launch(pickle.loads(receiver))
    second.until_records(["2"])
    second.until_error("app.log was read up to byte 2 and is gone")


def test_file_rewritten_between_launches_is_read_from_the_beginning(launch: Launch, log: Path, tmp_path: Path) -> None:
    receiver = pickle.dumps(follow(log, offset_file=str(tmp_path / "offsets")))
    append(log, "1\n")
    first = launch(pickle.loads(receiver))
    first.until_records(["1"])
    first.stop()
    log.write_text("2\n3\n")
    second = launch(pickle.loads(receiver))
    second.until_records(["2", "3"])


def test_corrupt_offset_file_is_an_error(launch: Launch, log: Path, tmp_path: Path) -> None:
    (tmp_path / "offsets").write_text("{")
    append(log, "1\n")
    launched = launch(follow(log, offset_file=str(tmp_path / "offsets")))
    launched.until_error("does not hold offsets")
    assert launched.records == []
    (tmp_path / "offsets").unlink()
    launched.until_records(["1"])


def test_unwritable_offset_file_is_reported(launch: Launch, log: Path, tmp_path: Path) -> None:
    append(log, "1\n")
    launched = launch(follow(log, offset_file=str(tmp_path / "none" / "offsets")))
    launched.until_records(["1"])
    append(log, "2\n")
    launched.until_records(["1", "2"])
    assert len(launched.errors) == 1
    assert "offsets cannot be written" in launched.errors[0]


def test_own_offset_file_is_not_followed(launch: Launch, log: Path) -> None:
    append(log, "1\n")
    launched = launch(follow(log.parent, offset_file=str(log.with_name("offsets"))))
    launched.until_records(["1"])
    append(log, "2\n")
    launched.until_records(["1", "2"])


# -- files that are none --


def test_other_than_regular_files_are_ignored(launch: Launch, log: Path) -> None:
    os.mkfifo(log.with_name("pipe"))
    log.with_name("folder").mkdir()
    log.with_name("link").symlink_to("nowhere")
    append(log, "1\n")
    log.with_name("same").symlink_to(log)
    launch(follow(log.parent)).until_records(["1"])


def test_unreadable_file_is_reported_once(launch: Launch, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, refused = os.open, threading.Event()

    def refuse(path: Any, *more: Any, **and_more: Any) -> int:
        if str(path).endswith("bad.log") and not refused.is_set():
            raise PermissionError(13, "Permission denied", path)
        return real(path, *more, **and_more)

    monkeypatch.setattr("penstock_file.followed_file.os.open", refuse)
    append(log.with_name("bad.log"), "bad\n")
    append(log, "1\n")
    launched = launch(follow(log.parent))
    launched.until_records(["1"])
    append(log, "2\n")
    launched.until_records(["1", "2"])
    (error,) = launched.errors
    assert "bad.log cannot be read" in error
    assert "Permission denied" in error
    refused.set()
    launched.until_records(["1", "2", "bad"])


# -- rate limit and stop --


def test_relaunch_at_any_moment_loses_and_repeats_no_line(launch: Launch, log: Path, tmp_path: Path) -> None:
    receiver = pickle.dumps(follow(log, offset_file=str(tmp_path / "offsets")))
    lines = [str(number) for number in range(400)]
    append(log, "".join(f"{line}\n" for line in lines))
    records: list[str] = []
    for wanted in (20, 100, 101, 250, 400):
        launched = launch(pickle.loads(receiver), settings={"spark.streaming.receiver.maxRate": "2000"})
        missing = wanted - len(records)
        launched.until(partial(has_records, launched, missing))
        launched.stop()
        records += launched.records
    assert records == lines


def test_stopping_is_prompt(launch: Launch, log: Path) -> None:
    append(log, "1\n")
    launched = launch(follow(log, poll_interval=3600))
    launched.until_records(["1"])
    launched.stop()
