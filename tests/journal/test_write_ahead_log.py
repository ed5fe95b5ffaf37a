"""A journal in good times: what was appended is recovered, in order, and old files go."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.conf import Settings
from penstock.errors import WriteAheadLogError
from penstock.journal import write_ahead_log as wal_module
from penstock.journal.write_ahead_log import Recovered, WriteAheadLog
from penstock.runtime.clock import ManualClock
from penstock.storage.directory import Directory

if TYPE_CHECKING:
    from tests.helpers.memory_directory import MemoryDirectory
    from tests.journal.conftest import Kept, ListFold

Keep = Callable[..., "Kept"]
Memory = type["MemoryDirectory"]

CLOSES = {"spark.streaming.driver.writeAheadLog.closeFileAfterWrite": "true"}
ROLLS_AT_ONCE = {"spark.streaming.driver.writeAheadLog.rollingIntervalSecs": "0"}


def test_nothing_is_there_before_the_start(keep: Keep, tmp_path: Path) -> None:
    kept = keep(Directory.of(str(tmp_path / "journal")), start=False)
    assert kept.recovered == Recovered(0)
    assert list(tmp_path.iterdir()) == []


def test_what_was_appended_is_recovered_in_order(keep: Keep, tmp_path: Path) -> None:
    directory = Directory.of(str(tmp_path / "journal"))
    first = keep(directory)
    first.add(*range(100))
    # Killed: nothing was closed.
    second = keep(directory)
    assert second.recovered == Recovered(100)
    assert second.fold.applied == first.fold.applied
    second.add(100)
    assert keep(directory, start=False).fold.numbers == list(range(101))


def test_an_event_is_applied_once_it_is_committed(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory)
    seen: list[int] = []
    directory.hook = lambda operation, _: seen.append(len(kept.fold.applied)) if operation == "commit" else None
    kept.add(1, 2)
    assert seen == [0, 1]
    assert kept.fold.numbers == [1, 2]


def test_a_new_run_begins_a_file_with_the_state_and_deletes_the_others(keep: Keep, memory: Memory) -> None:
    directory = memory()
    keep(directory).add(1, 2)
    assert directory.names() == ["journal-0000000000"]
    keep(directory)
    assert directory.names() == ["journal-0000000001"]
    assert keep(directory, start=False).recovered == Recovered(2)


def test_events_of_another_run_are_not_recovered_and_go(keep: Keep, memory: Memory) -> None:
    directory = memory()
    keep(directory, "run-1").add(1, 2)
    other = keep(directory, "run-2", start=False)
    assert other.recovered == Recovered(0)
    assert keep(directory, "run-1", start=False).fold.numbers == [1, 2]
    other.journal.start()
    other.add(3)
    assert keep(directory, "run-1", start=False).fold.numbers == []
    assert keep(directory, "run-2", start=False).fold.numbers == [3]


def test_a_run_whose_first_file_was_not_finished_leaves_the_one_before_as_it_was(keep: Keep, memory: Memory) -> None:
    directory = memory()
    keep(directory, "run-1").add(1, 2)
    other = keep(directory, "run-2", start=False)
    directory.fail_at(range(1, 100))
    with pytest.raises(WriteAheadLogError, match=r"memory/ cannot be written, tries: 3: .*No space"):
        other.journal.start()
    directory.fail_at(range(0))
    assert keep(directory.copy(), "run-1", start=False).fold.numbers == [1, 2]
    assert keep(directory.copy(), "run-2", start=False).fold.numbers == []


def test_it_is_begun_anew_when_it_is_old(keep: Keep, memory: Memory, clock: ManualClock) -> None:
    directory = memory()
    kept = keep(directory)
    kept.add(1)
    clock.advance(59_999)
    kept.add(2)
    kept.settle(3)
    assert directory.names() == ["journal-0000000000"]
    clock.advance(1)
    kept.add(4)
    kept.settle(5)
    assert directory.names() == ["journal-0000000001"]
    assert keep(directory.copy(), start=False).fold.numbers == [1, 2, 3, 4, 5]


def test_it_is_begun_anew_when_it_has_grown(keep: Keep, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_module, "_ROLL_BYTES", 200)
    directory = memory()
    kept = keep(directory)
    kept.add(*range(100))
    kept.settle(100)
    # Only once it has grown by as much as the state: else each event would cost the whole of it.
    states = directory.count("append")
    assert 4 <= states <= 10
    assert directory.names() == [f"journal-{states - 1:010d}"]
    assert keep(directory.copy(), start=False).fold.numbers == list(range(101))


def test_old_files_that_come_back_change_nothing(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, conf=ROLLS_AT_ONCE)
    kept.add(1)
    kept.settle(2)
    old = directory.copy()
    kept.add(3)
    kept.settle(4)
    files = {**old.files, **directory.files}
    assert len(files) > 1
    assert keep(memory({name: bytes(data) for name, data in files.items()}), start=False).fold.numbers == [1, 2, 3, 4]


def test_a_failing_deletion_is_made_good_later(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, conf=ROLLS_AT_ONCE)

    def hook(operation: str, name: str) -> None:
        if operation == "delete":
            raise PermissionError(f"{name} is not yours")

    directory.hook = hook
    kept.add(1, 2)
    kept.settle(3)
    assert len(directory.names()) > 2
    assert keep(directory.copy(), start=False).fold.numbers == [1, 2, 3]
    directory.hook = lambda _operation, _name: None
    kept.add(4)
    kept.settle(5)
    kept.journal.close()
    assert len(directory.names()) == 1


def test_with_files_that_are_closed_each_group_is_one(keep: Keep, memory: Memory, clock: ManualClock) -> None:
    directory = memory()
    kept = keep(directory, conf=CLOSES)
    kept.add(1, 2, 3)
    assert directory.names() == [f"journal-{number:010d}" for number in range(4)]
    assert directory.count("close") == 4
    assert keep(directory.copy(), start=False).fold.numbers == [1, 2, 3]
    clock.advance(60_000)
    kept.add(4)
    kept.journal.close()
    assert directory.names() == ["journal-0000000005"]
    assert keep(directory.copy(), start=False).fold.numbers == [1, 2, 3, 4]


def test_where_only_closed_files_are_safe_they_are_closed_unasked(keep: Keep, memory: Memory) -> None:
    directory = memory(can_append=False)
    keep(directory).add(1, 2)
    assert directory.count("close") == 3


def test_what_waits_is_written_in_one_go_and_committed_once(keep: Keep, memory: Memory) -> None:
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
    with kept.journal._changed:
        assert kept.journal._changed.wait_for(lambda: len(kept.journal._queue) == 19, 10)
    assert kept.fold.applied == []
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert sorted(kept.fold.numbers) == list(range(20))
    assert directory.count("commit") - before == 2
    assert sorted(keep(directory.copy(), start=False).fold.numbers) == list(range(20))


def test_all_that_was_acknowledged_to_many_threads_is_recovered(
    keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    found = keep(directory, start=False).fold.numbers
    assert found == kept.fold.numbers
    assert sorted(found) == list(range(2000))
    for first in range(0, 2000, 200):
        assert [number for number in found if first <= number < first + 200] == list(range(first, first + 200))


def test_what_has_no_json_fails_who_appends_it_and_nobody_else(keep: Keep, memory: Memory) -> None:
    kept = keep(memory())
    with pytest.raises(TypeError):
        kept.journal.append({"n": object()})
    with pytest.raises(WriteAheadLogError, match="too large"):
        kept.journal.append({"n": 1, "text": "x" * (64 << 20)})
    kept.add(1)
    assert kept.fold.numbers == [1]


def test_what_the_state_says_to_an_event_reaches_who_appended_it(
    keep: Keep, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(memory())

    def refuse(_event: dict[str, Any]) -> None:
        raise KeyError("no such block")

    with monkeypatch.context() as patch:
        patch.setattr(kept.fold, "apply", refuse)
        with pytest.raises(KeyError, match="no such block"):
            kept.add(1)
    kept.add(2)
    assert kept.fold.numbers == [2]


def test_an_event_that_is_not_understood_stops_the_recovery_by_name(
    keep: Keep, memory: Memory, list_fold: type[ListFold], monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    directory = memory()
    keep(directory).add(1)
    monkeypatch.setattr(list_fold, "apply", lambda _self, event: event["what"])
    with pytest.raises(WriteAheadLogError, match=r"memory/ has an event that cannot be applied .* another version"):
        WriteAheadLog(directory, "run-1", Settings.parse({}), clock).recover(list_fold())


def test_a_journal_that_is_not_open_takes_nothing(keep: Keep, memory: Memory) -> None:
    kept = keep(memory(), start=False)
    with pytest.raises(WriteAheadLogError, match="not started"):
        kept.add(1)
    kept.journal.close()
    with pytest.raises(WriteAheadLogError, match="closed"):
        kept.add(1)
    assert kept.fold.applied == []


def test_closing_twice_is_harmless(keep: Keep, memory: Memory) -> None:
    kept = keep(memory())
    kept.add(1)
    kept.journal.close()
    kept.journal.close()
    with pytest.raises(WriteAheadLogError, match="closed"):
        kept.add(2)


def test_closing_fails_those_who_wait(keep: Keep, memory: Memory) -> None:
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
    with kept.journal._changed:
        assert kept.journal._changed.wait_for(lambda: len(kept.journal._queue) == 2, 10)
    # The disk does not answer: after a while even that write is given up.
    kept.journal.close(timeout_s=0.01)
    for thread in threads:
        thread.join(10)
    assert [str(outcomes[number]) for number in (1, 2)] == [
        "the write-ahead log was closed before this event was written"
    ] * 2
    assert "whether it has this event is unknown" in str(outcomes[0])
    go_on.set()
    assert kept.journal._thread.finish(10)


def test_closing_lets_the_write_at_hand_end(keep: Keep, memory: Memory) -> None:
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
    closing = threading.Thread(target=kept.journal.close)
    closing.start()
    go_on.set()
    closing.join(10)
    thread.join(10)
    assert kept.fold.numbers == [1]
    assert not kept.journal._thread.is_alive()


@pytest.mark.parametrize(("durability", "calls"), [("none", 0), ("flush", 0), ("fsync", 3)])
def test_the_disk_is_waited_for_if_that_is_wanted(
    keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str, calls: int
) -> None:
    synced: list[int] = []
    kept = keep(Directory.of(str(tmp_path)), conf={"spark.penstock.writeAheadLog.durability": durability})
    monkeypatch.setattr(os, "fsync", synced.append)
    kept.add(1, 2, 3)
    assert len(synced) == calls
    # Without durability they are in this process still.
    expected = [] if durability == "none" else [1, 2, 3]
    assert keep(Directory.of(str(tmp_path)), start=False).fold.numbers == expected
    kept.journal.close()
    assert keep(Directory.of(str(tmp_path)), start=False).fold.numbers == [1, 2, 3]
