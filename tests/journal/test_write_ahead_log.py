"""A write-ahead log on a healthy disk: appended events are recovered in order, and old segments are deleted."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import Gate, run_in_background, wait_for

from penstock.conf import Settings
from penstock.errors import WriteAheadLogError
from penstock.journal import write_ahead_log as wal_module
from penstock.journal.reader import Recovered
from penstock.journal.segment import encoded, event_record, header_record
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.storage.directory import Directory
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers.memory_directory import MemoryDirectory
    from tests.journal.conftest import Kept, ListState

Keep = Callable[..., "Kept"]
Memory = type["MemoryDirectory"]

ROLLS_AT_ONCE = {"spark.streaming.driver.writeAheadLog.rollingIntervalSecs": "0"}


def test_recovery_creates_no_file(keep: Keep, tmp_path: Path) -> None:
    kept = keep(Directory.of(str(tmp_path / "log")), start=False)
    assert kept.recovered == Recovered(0)
    assert list(tmp_path.iterdir()) == []


def test_appended_events_are_recovered_in_order(keep: Keep, tmp_path: Path) -> None:
    directory = Directory.of(str(tmp_path / "log"))
    first = keep(directory)
    first.add(*range(100))
    # Killed: nothing was closed.
    second = keep(directory)
    assert second.recovered == Recovered(100)
    assert second.state.applied == first.state.applied
    second.add(100)
    assert keep(directory, start=False).state.numbers == list(range(101))


def test_event_is_applied_after_its_commit(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory)
    seen: list[int] = []
    directory.hook = lambda operation, _: seen.append(len(kept.state.applied)) if operation == "commit" else None
    kept.add(1, 2)
    assert seen == [0, 1]
    assert kept.state.numbers == [1, 2]


def test_start_writes_a_base_segment_and_deletes_the_others(keep: Keep, memory: Memory) -> None:
    directory = memory()
    keep(directory).add(1, 2)
    assert directory.names() == ["segment-0000000000"]
    keep(directory)
    assert directory.names() == ["segment-0000000001"]
    assert keep(directory, start=False).recovered == Recovered(2)


def test_events_of_another_run_are_ignored_and_deleted(keep: Keep, memory: Memory) -> None:
    directory = memory()
    keep(directory, "run-1").add(1, 2)
    other = keep(directory, "run-2", start=False)
    assert other.recovered == Recovered(0)
    assert keep(directory, "run-1", start=False).state.numbers == [1, 2]
    other.log.start()
    other.add(3)
    assert keep(directory, "run-1", start=False).state.numbers == []
    assert keep(directory, "run-2", start=False).state.numbers == [3]


def test_failed_start_leaves_the_log_of_the_previous_run(keep: Keep, memory: Memory) -> None:
    directory = memory()
    keep(directory, "run-1").add(1, 2)
    other = keep(directory, "run-2", start=False)
    directory.fail_at(range(1, 100))
    with pytest.raises(WriteAheadLogError, match=r"memory/ could not be written after 3 attempts: .*No space"):
        other.log.start()
    directory.fail_at(range(0))
    assert keep(directory.copy(), "run-1", start=False).state.numbers == [1, 2]
    assert keep(directory.copy(), "run-2", start=False).state.numbers == []


def test_base_segment_is_written_after_the_rolling_interval(keep: Keep, memory: Memory, clock: ManualClock) -> None:
    directory = memory()
    kept = keep(directory)
    kept.add(1)
    clock.advance(59_999)
    kept.add(2)
    kept.settle(3)
    assert directory.names() == ["segment-0000000000"]
    clock.advance(1)
    kept.add(4)
    kept.settle(5)
    assert directory.names() == ["segment-0000000001"]
    assert keep(directory.copy(), start=False).state.numbers == [1, 2, 3, 4, 5]


def encoded_with(length: int, number: int) -> dict[str, Any]:
    """An event of this many bytes."""
    event = {"n": number, "text": ""}
    return {**event, "text": "x" * (length - len(encoded(event)))}


def test_base_segment_is_written_after_exactly_the_bytes_that_it_waits_for(
    keep: Keep, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = encoded_with(50, 1)
    monkeypatch.setattr(wal_module, "_ROLL_BYTES", 2 * len(event_record(1, encoded(event))))
    directory = memory()
    kept = keep(directory)
    for names in (["segment-0000000000"], ["segment-0000000001"]):
        kept.log.append(event)
        # The writer begins a segment after it has acknowledged an event.
        wait_for(lambda names=names: directory.names() == names, f"the segments are {names}")  # type: ignore[misc]
    assert directory.count("append") == 2


def test_size_is_that_of_the_records_that_a_recovery_reads(keep: Keep, memory: Memory, clock: ManualClock) -> None:
    directory = memory()
    kept = keep(directory)
    header = len(header_record("run-1", 1, 0))
    assert kept.log.num_bytes == 0
    kept.add(1, 2)
    assert kept.log.num_bytes == len(directory.files["segment-0000000000"]) - header
    clock.advance(60_000)
    kept.add(3)
    kept.add(4)
    (name,) = directory.names()
    kept.log.close()
    assert kept.log.num_bytes == len(directory.files[name]) - header


@pytest.mark.parametrize(("durability", "syncs"), [("none", 1), ("flush", 1), ("fsync", 0)])
def test_sync_syncs_what_is_not_synced_at_its_commit(keep: Keep, memory: Memory, durability: str, syncs: int) -> None:
    directory = memory()
    kept = keep(directory, conf={"spark.penstock.writeAheadLog.durability": durability})
    kept.log.sync()
    assert directory.count("sync") == syncs


@pytest.mark.parametrize(
    ("length", "commits"),
    [
        # Two events and the comma between them fit into a record of 100 bytes, or just do not.
        (49, 3),
        (50, 5),
        # A single event may fill it.
        (100, 5),
    ],
)
def test_events_that_fit_into_one_record_are_committed_together(
    keep: Keep, memory: Memory, monkeypatch: pytest.MonkeyPatch, length: int, commits: int
) -> None:
    monkeypatch.setattr(wal_module, "_MAX_EVENT_BYTES", 100)
    directory, gate = memory(), Gate()
    kept = keep(directory)
    before = directory.count("commit")
    directory.hook = lambda operation, _name: gate() if operation == "commit" else None
    appended = [run_in_background(partial(kept.log.append, encoded_with(length, 0)))]
    assert gate.reached.wait(10)
    for number in range(1, 5):
        appended.append(run_in_background(partial(kept.log.append, encoded_with(length, number))))
    # Holds the race open until all events are queued.
    with kept.log._changed:
        assert kept.log._changed.wait_for(lambda: len(kept.log._queue) == 4, 10)
    gate.open()
    for appending in appended:
        appending.result(timeout=10)
    assert directory.count("commit") - before == commits
    with pytest.raises(WriteAheadLogError, match="an event of 101 bytes is too large"):
        kept.log.append(encoded_with(101, 5))


def test_base_segment_is_written_after_enough_events(
    keep: Keep, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_module, "_ROLL_BYTES", 200)
    directory = memory()
    kept = keep(directory)
    kept.add(*range(100))
    kept.settle(100)
    # Only once the events have as many bytes as the state: otherwise each event would rewrite the state.
    states = directory.count("append")
    assert 4 <= states <= 10
    assert directory.names() == [f"segment-{states - 1:010d}"]
    assert keep(directory.copy(), start=False).state.numbers == list(range(101))


def test_reappearing_old_segments_change_nothing(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, conf=ROLLS_AT_ONCE)
    kept.add(1)
    kept.settle(2)
    old = directory.copy()
    kept.add(3)
    kept.settle(4)
    files = {**old.files, **directory.files}
    assert len(files) > 1
    assert keep(memory({name: bytes(data) for name, data in files.items()}), start=False).state.numbers == [1, 2, 3, 4]


def test_failed_deletion_is_repeated_later(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, conf=ROLLS_AT_ONCE)

    directory.fail("delete", error=PermissionError("not yours"))
    kept.add(1, 2)
    kept.settle(3)
    assert len(directory.names()) > 2
    assert keep(directory.copy(), start=False).state.numbers == [1, 2, 3]
    directory.fail()
    kept.add(4)
    kept.settle(5)
    kept.log.close()
    assert len(directory.names()) == 1


def test_each_write_has_its_own_segment_if_the_directory_cannot_append(
    keep: Keep, memory: Memory, clock: ManualClock
) -> None:
    directory = memory(can_append=False)
    kept = keep(directory)
    kept.add(1, 2, 3)
    assert directory.names() == [f"segment-{number:010d}" for number in range(4)]
    assert directory.count("close") == 4
    assert keep(directory.copy(), start=False).state.numbers == [1, 2, 3]
    clock.advance(60_000)
    kept.add(4)
    kept.log.close()
    assert directory.names() == ["segment-0000000005"]
    assert keep(directory.copy(), start=False).state.numbers == [1, 2, 3, 4]


def test_pending_events_are_written_and_committed_together(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory)
    blocked, go_on = threading.Event(), threading.Event()
    before = directory.count("commit")

    def hook(operation: str, _name: str) -> None:
        if operation == "commit" and not blocked.is_set():
            blocked.set()
            assert go_on.wait(10)

    directory.hook = hook
    threads = [threading.Thread(target=kept.add, args=(0,))]
    threads[0].start()
    assert blocked.wait(10)
    for number in range(1, 20):
        threads.append(threading.Thread(target=kept.add, args=(number,)))
        threads[-1].start()
    # Holds the race open until all events are queued.
    with kept.log._changed:
        assert kept.log._changed.wait_for(lambda: len(kept.log._queue) == 19, 10)
    assert kept.state.applied == []
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert sorted(kept.state.numbers) == list(range(20))
    assert directory.count("commit") - before == 2
    assert sorted(keep(directory.copy(), start=False).state.numbers) == list(range(20))


def test_events_of_many_threads_are_recovered(keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_module, "_ROLL_BYTES", 20_000)
    directory = Directory.of(str(tmp_path))
    kept = keep(directory)

    def add(first: int) -> None:
        kept.add(*range(first, first + 200))

    threads = [threading.Thread(target=add, args=(first,)) for first in range(0, 2000, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    found = keep(directory, start=False).state.numbers
    assert found == kept.state.numbers
    assert sorted(found) == list(range(2000))
    for first in range(0, 2000, 200):
        assert [number for number in found if first <= number < first + 200] == list(range(first, first + 200))


def test_unencodable_event_fails_only_its_appender(keep: Keep, memory: Memory) -> None:
    kept = keep(memory())
    with pytest.raises(TypeError):
        kept.log.append({"n": object()})
    with pytest.raises(WriteAheadLogError, match="too large"):
        kept.log.append({"n": 1, "text": "x" * (64 << 20)})
    kept.add(1)
    assert kept.state.numbers == [1]


def test_error_of_the_state_reaches_the_appender(keep: Keep, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = keep(memory())

    def refuse(_event: dict[str, Any]) -> None:
        raise KeyError("no such block")

    with monkeypatch.context() as patch:
        patch.setattr(kept.state, "apply", refuse)
        with pytest.raises(KeyError, match="no such block"):
            kept.add(1)
    kept.add(2)
    assert kept.state.numbers == [2]


def test_event_that_cannot_be_applied_fails_the_recovery_by_name(
    keep: Keep, memory: Memory, list_state: type[ListState], monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    directory = memory()
    keep(directory).add(1)
    monkeypatch.setattr(list_state, "apply", lambda _self, event: event["what"])
    with pytest.raises(WriteAheadLogError, match=r"memory/ has an event that cannot be applied .* another version"):
        WriteAheadLog(directory, "run-1", Settings.parse({}), clock).recover(list_state())


def test_log_that_is_not_started_or_closed_refuses_events(
    keep: Keep, memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    kept = keep(memory(), start=False)
    with pytest.raises(WriteAheadLogError, match="not started"):
        kept.add(1)
    started = keep(memory())
    started.add(1)
    for closed in (kept, started, started):
        closed.log.close()
        with pytest.raises(WriteAheadLogError, match="closed"):
            closed.add(2)
    assert (kept.state.numbers, started.state.numbers) == ([], [1])
    assert "last write not finished" not in caplog.text


def test_close_fails_pending_events(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory)
    blocked, go_on = threading.Event(), threading.Event()

    def hook(operation: str, _name: str) -> None:
        if operation == "commit" and not blocked.is_set():
            blocked.set()
            assert go_on.wait(10)

    directory.hook = hook
    outcomes: dict[int, BaseException | None] = {}

    def add(number: int) -> None:
        try:
            kept.add(number)
            outcomes[number] = None
        except WriteAheadLogError as error:
            outcomes[number] = error

    threads = [threading.Thread(target=add, args=(number,)) for number in range(3)]
    threads[0].start()
    assert blocked.wait(10)
    for thread in threads[1:]:
        thread.start()
    # Holds the race open until all events are queued.
    with kept.log._changed:
        assert kept.log._changed.wait_for(lambda: len(kept.log._queue) == 2, 10)
    # The disk does not respond: after the timeout the write in progress fails, too.
    kept.log.close(timeout_s=0.01)
    for thread in threads:
        thread.join(10)
    assert [str(outcomes[number]) for number in (1, 2)] == [
        f"the write-ahead log in {directory.location()} was closed before this event was written: its source must send "
        "the data again"
    ] * 2
    assert "not answered for 0.01 s; whether it has this event is unknown: its source must" in str(outcomes[0])
    go_on.set()
    # The thread has no public name; the test waits for its end.
    assert kept.log._thread.finish(10)


def test_close_waits_for_the_write_in_progress(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory)
    blocked, go_on = threading.Event(), threading.Event()

    def hook(operation: str, _name: str) -> None:
        if operation == "commit":
            blocked.set()
            assert go_on.wait(10)

    directory.hook = hook
    thread = threading.Thread(target=kept.add, args=(1,))
    thread.start()
    assert blocked.wait(10)
    closing = threading.Thread(target=kept.log.close)
    closing.start()
    go_on.set()
    closing.join(10)
    thread.join(10)
    assert kept.state.numbers == [1]
    # No public name for a leak: the thread of a closed log.
    assert not kept.log._thread.is_alive()


@pytest.mark.parametrize(("durability", "calls"), [("none", 0), ("flush", 0), ("fsync", 3)])
def test_fsync_is_called_only_with_that_durability(
    keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str, calls: int
) -> None:
    synced: list[int] = []
    kept = keep(Directory.of(str(tmp_path)), conf={"spark.penstock.writeAheadLog.durability": durability})
    monkeypatch.setattr(os, "fsync", synced.append)
    kept.add(1, 2, 3)
    assert len(synced) == calls
    # Without durability they are still in this process.
    expected = [] if durability == "none" else [1, 2, 3]
    assert keep(Directory.of(str(tmp_path)), start=False).state.numbers == expected
    kept.log.close()
    assert keep(Directory.of(str(tmp_path)), start=False).state.numbers == [1, 2, 3]
