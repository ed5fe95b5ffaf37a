"""The event log and its replay."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st
from plugins.ui.tests.conftest import T, batch_events, state_of
from tests.helpers import wait_for

from penstock import ConfigurationError, StreamInputInfo
from penstock.spi import Appender, Directory
from penstock_testing import FakeListenerContext, listener_events
from penstock_ui.event_log import EventLog, Retention, decode, encode, read_history, replay
from penstock_ui.monitor import describe
from penstock_ui.own_events import CountsCarried, JobsRun, RateChanged, Sampled
from penstock_ui.snapshot import Listener, Snapshot, Storage, Totals
from penstock_ui.spark_jobs import JobInfo
from penstock_ui.store import Limits

ROOT = Path(__file__).parents[3]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Callable[..., EventLog]]:
    """Write events to a log in ``tmp_path``."""
    logs = []

    def write(events: list[Any], close: bool = True, **options: Any) -> EventLog:
        event_log = EventLog(str(tmp_path), options.pop("application_id", "app-0"), **{"retry_s": 0.01, **options})
        logs.append(event_log)
        event_log.start()
        for event in events:
            event_log.take(event)
        if close:
            event_log.close()
        return event_log

    yield write
    for event_log in logs:
        event_log.close()


def ended(state: Snapshot) -> Snapshot:
    """A state as a history shows it."""
    return evolve(state, is_live=False, version=0)


def test_history_shows_what_the_application_showed(
    write: Callable[..., EventLog], run: list[Any], tmp_path: Path
) -> None:
    own = [
        Sampled(T, Storage(1, 2, 3), (Listener("x", 1, 2, True),)),
        RateChanged(T, 0, None, "why"),
        JobsRun((JobInfo(1, T + 1000, 0, "RUNNING", T, None, 2, 1), JobInfo(2, T + 1000, 0))),
        *listener_events(random.Random(3), first_batch=50, batches=5),
    ]
    write([*run, *own])
    history = read_history(str(tmp_path))
    assert ended(history.snapshot()) == ended(state_of([*run, *own]))
    assert (history.events, history.damaged) == (len(run) + len(own), 0)
    assert not history.snapshot().is_live


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000))
def test_every_event_is_the_same_after_it_was_written(seed: int) -> None:
    for event in listener_events(random.Random(seed), batches=10):
        assert decode(encode(event)) == event


def test_values_that_json_lacks_are_written_as_text() -> None:
    odd = StreamInputInfo(0, 1, {"path": Path("/x"), "text": "\ud800 ü\n\u2028"})
    event = batch_events(1)[0]
    line = encode(type(event)(evolve(event.batchInfo, streamIdToInputInfo={0: odd})))
    assert line.count(b"\n") == 1
    assert decode(line).batchInfo.streamIdToInputInfo[0].metadata["path"] == "/x"  # type: ignore[union-attr]


def test_log_that_a_crash_truncated_is_read_up_to_there(
    write: Callable[..., EventLog], run: list[Any], tmp_path: Path
) -> None:
    write(run)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in (len(whole) - 1, len(whole) - 5, len(whole) - len(lines[-1]) + 1, 3, 0):
        history = replay([whole[:cut]])
        assert history.damaged <= 1
        complete = whole[:cut].count(b"\n")
        assert ended(history.state) == ended(state_of(run[: complete + (cut == len(whole) - 1)]))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\0" * 50,
        b"[]",
        b"7",
        b"null",
        b'{"event":"Unknown"}',
        b'{"event":"BatchCompleted","batchInfo":5}',
        b'{"event":"BatchCompleted"}',
        b'{"event":["a"]}',
        b'{"event":"StreamingStarted","time":"now"}',
        b"[" * 100_000,
        b'{"a":1',
        b"\xff\xfe",
    ],
    ids=range(13),
)
def test_line_that_is_no_event_is_skipped_and_counted(run: list[Any], line: bytes) -> None:
    good = b"".join(map(encode, run))
    history = replay([good + line + b"\n", encode(batch_events(99)[-1])])
    assert history.damaged == (1 if line else 0)
    assert history.state.totals.completed_batches == 21


def test_events_of_a_later_version_may_have_more_fields(run: list[Any]) -> None:
    line = encode(batch_events(1)[-1]).replace(b'"batchTime"', b'"later":{"x":[1]},"batchTime"', 1)
    assert replay([line]).state.totals.completed_batches == 1


def test_old_files_are_deleted_and_the_counts_stay(write: Callable[..., EventLog], tmp_path: Path) -> None:
    described = describe(FakeListenerContext())
    events = [described, *(event for n in range(200) for event in batch_events(n, {0: 5, 1: 6}))]
    write(events, max_file_size=20_000, retention=Retention(max_files=3))
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert files[-1].name > "events-app-0.000003.jsonl"
    assert all(file.stat().st_size < 25_000 for file in files)
    history = read_history(str(tmp_path)).snapshot()
    assert history.totals == Totals(200, 0, 2200, 2200)
    assert [stream.records for stream in history.streams] == [1000, 1200]
    assert history.application == described.application
    assert history.batches[-1].time_ms == T + 199_000


DAY_S = 86400.0


@pytest.mark.parametrize(
    ("days", "expired"),
    [
        ({}, []),
        ({"a": 1.5, "b": 3, "c": 5}, []),
        ({"a": 1.5, "b": 3, "c": 5, "d": 6}, ["d"]),
        ({"a": 91, "b": 100, "c": 89}, ["b", "a"]),
        # May still run, with a clock of its own.
        ({"a": 0.9, "b": 0.8, "c": 0.7, "d": 0, "e": -5}, []),
        ({"a": 0, "b": 0, "c": 0, "d": 0.9, "e": 1.1}, ["e"]),
    ],
)
def test_logs_expire_by_number_and_by_age_but_not_while_the_application_may_run(
    days: dict[str, float], expired: list[str]
) -> None:
    now_s = 1_800_000_000.0
    changed_s = {application: now_s - age * DAY_S for application, age in days.items()}
    assert Retention(max_applications=3).expired(changed_s, now_s) == expired


def test_logs_of_ended_applications_are_deleted(write: Callable[..., EventLog], run: list[Any], tmp_path: Path) -> None:
    def ended_before(application: str, days: float) -> None:
        for number in (1, 2):
            file = tmp_path / f"events-{application}.{number:06}.jsonl"
            file.write_bytes(b"")
            os.utime(file, (time.time() - (days + 2 - number) * DAY_S,) * 2)

    for number in range(3):
        ended_before(f"ended-{number}", 10 + number)
    ended_before("old", 95)
    ended_before("app-0", 95)
    (tmp_path / "notes.txt").write_text("mine")
    os.utime(tmp_path / "notes.txt", (0, 0))
    write(run, retention=Retention(max_applications=2))
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *(f"events-app-0.{number:06}.jsonl" for number in (1, 2, 3)),
        *(f"events-ended-{app}.{number:06}.jsonl" for app in (0, 1) for number in (1, 2)),
        "notes.txt",
    ]


def test_logs_that_cannot_be_deleted_are_reported_and_the_log_is_written(
    write: Callable[..., EventLog],
    run: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    old = tmp_path / "events-old.000001.jsonl"
    old.write_bytes(b"")
    os.utime(old, (0, 0))

    def fails(_directory: Directory, _name: str) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(type(Directory.of(str(tmp_path))), "delete", fails)
    write(run)
    assert caplog.text.count("event logs not deleted") == 1
    assert read_history(str(tmp_path), "app-0").events == len(run)


def test_lone_surrogates_are_valid_json_in_the_log(write: Callable[..., EventLog], tmp_path: Path) -> None:
    write(batch_events(1, failure="caf\udce9"))
    (file,) = tmp_path.iterdir()
    assert b"\\ud" not in file.read_bytes()
    (batch,) = read_history(str(tmp_path)).snapshot().completed
    assert batch.first_failure == "caf\ufffd"


def test_every_file_can_be_read_alone(write: Callable[..., EventLog], run: list[Any], tmp_path: Path) -> None:
    write([run[0], *(event for n in range(50) for event in batch_events(n))], max_file_size=5000)
    *_, last = sorted(tmp_path.iterdir())
    assert replay([last.read_bytes()]).state.totals == Totals(50, 0, 500, 500)
    assert read_history(str(last)).snapshot().totals == Totals(50, 0, 500, 500)


def test_second_context_of_an_application_continues_its_log(
    write: Callable[..., EventLog], run: list[Any], tmp_path: Path
) -> None:
    write(run)
    write(batch_events(99))
    assert len(list(tmp_path.iterdir())) == 2
    assert read_history(str(tmp_path)).snapshot().totals.completed_batches == 21


def test_full_disk_is_reported_once_and_the_log_continues_when_there_is_room(
    write: Callable[..., EventLog],
    run: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_full, written, attempts = True, Appender.write, 0

    def fails_when_full(appender: Appender, data: bytes) -> None:
        nonlocal attempts, is_full
        if is_full:
            attempts += 1
            is_full = attempts < 5
            # A part fits.
            written(appender, data[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
        written(appender, data)

    monkeypatch.setattr(Appender, "write", fails_when_full)
    write(run)
    assert caplog.text.count("event log not written") == caplog.text.count("event log written again") == 1
    assert "No space left" in caplog.text
    assert ended(read_history(str(tmp_path)).snapshot()) == ended(state_of(run))


class Stored:
    """What an object store holds after each put."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, every_s: float) -> None:
        self.puts: list[str] = []
        self.failures = 0
        # Arrow's file system in memory, which cannot append.
        self.directory = Directory.of("mock://history")
        for name in self.directory.names():
            self.directory.delete(name)
        written = type(self.directory).write

        def write(directory: Directory, name: str, data: bytes, *, sync: bool = False) -> None:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.ECONNREFUSED, "Connection refused")
            written(directory, name, data, sync=sync)
            self.puts.append(name)

        monkeypatch.setattr(type(self.directory), "write", write)
        monkeypatch.setattr("penstock_ui.event_log._PUT_EVERY_S", every_s)


def log_to_store(events: list[Any], **options: Any) -> EventLog:
    event_log = EventLog("mock://history", "app-0", retry_s=0.01, **options)
    event_log.start()
    for event in events:
        event_log.take(event)
    event_log.close()
    return event_log


def test_log_on_an_object_store_is_one_file_that_is_put_again(run: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    store = Stored(monkeypatch, 3600)
    log_to_store(run)
    assert set(store.puts) == {"events-app-0.000001.jsonl"}
    assert len(store.puts) <= 2
    assert ended(read_history("mock://history").snapshot()) == ended(state_of(run))


def test_log_on_an_object_store_is_rotated_too(run: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    store = Stored(monkeypatch, 0)
    events = [run[0], *(event for n in range(200) for event in batch_events(n, {0: 5, 1: 6}))]
    log_to_store(events, max_file_size=20_000, retention=Retention(max_files=3))
    assert len(store.directory.names()) == 3
    assert read_history("mock://history").snapshot().totals == Totals(200, 0, 2200, 2200)


def test_object_store_that_is_away_for_a_while_misses_nothing(
    run: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = Stored(monkeypatch, 0)
    store.failures = 4
    assert log_to_store(run).dropped == 0
    assert caplog.text.count("event log not written") == caplog.text.count("event log written again") == 1
    assert ended(read_history("mock://history").snapshot()) == ended(state_of(run))


def test_log_of_a_killed_process_has_its_last_batch(tmp_path: Path) -> None:
    program = f"""
import os, signal
from penstock_ui.event_log import EventLog
from plugins.ui.tests.conftest import batch_events
log = EventLog({str(tmp_path)!r}, "killed")
log.start()
for number in range(100):
    for event in batch_events(number):
        log.take(event)
while True:
    for name in os.listdir({str(tmp_path)!r}):
        if open(os.path.join({str(tmp_path)!r}, name)).read().count('"BatchCompleted"') == 100:
            os.kill(os.getpid(), signal.SIGKILL)
"""
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=False)
    assert found.returncode == -signal.SIGKILL
    state = read_history(str(tmp_path)).snapshot()
    assert state.completed[-1].time_ms == T + 99_000
    assert not state.is_live


def test_description_is_never_lost(
    write: Callable[..., EventLog], run: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock_ui.event_log._WAITING", 5)
    event_log = EventLog(str(tmp_path), "app-0")
    for event in run:
        event_log.take(event)
    event_log.start()
    event_log.close()
    history = read_history(str(tmp_path))
    assert history.snapshot().application.name == "tested"
    assert (history.events, event_log.dropped) == (6, len(run) - 6)


def test_events_beyond_the_limit_are_lost_while_the_disk_is_full(
    write: Callable[..., EventLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock_ui.event_log._WAITING", 50)
    monkeypatch.setattr("penstock_ui.event_log._RETRY_UNTIL_S", 0.1)

    def fails(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Appender, "write", fails)
    event_log = write([batch_events(1)[0]], close=False)
    # Only a log message reports it.
    wait_for(lambda: event_log._is_failing, "the disk has failed")
    for n in range(100):
        event_log.take(batch_events(n)[0])
    assert event_log.dropped >= 49
    event_log.close()
    assert event_log.dropped == 101
    # No public name for a leak: the thread of a closed log.
    assert not event_log._thread.is_alive()


def test_choice_lists_the_newest_applications(tmp_path: Path) -> None:
    for number in range(13):
        (tmp_path / f"events-app-{number:04}.000001.jsonl").write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"--app: app-0012, .*, app-0003 and 3 more$"):
        read_history(str(tmp_path))


def test_choice_of_the_application(write: Callable[..., EventLog], run: list[Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no event log in"):
        read_history(str(tmp_path))
    write(run, application_id="app/1")
    write(run[:2], application_id="../../app 2")
    assert {file.name for file in tmp_path.iterdir()} == {
        "events-app_1.000001.jsonl",
        "events-.._.._app_2.000001.jsonl",
    }
    with pytest.raises(ConfigurationError, match=r"several event logs.*app_1"):
        read_history(str(tmp_path))
    with pytest.raises(ConfigurationError, match="no event log of 'other'"):
        read_history(str(tmp_path), "other")
    assert read_history(str(tmp_path), "app/1").snapshot().totals.completed_batches == 20


def test_history_retains_as_many_batches_as_asked(run: list[Any]) -> None:
    assert len(replay([b"".join(map(encode, run))], Limits(batches=5)).state.completed) == 5


def test_carried_counts_do_not_undo_what_was_read(run: list[Any]) -> None:
    lines = b"".join(map(encode, run))
    old = encode(CountsCarried(T, T, Totals(1, 0, 1, 1)))
    assert replay([lines + old]).state.totals == state_of(run).totals
