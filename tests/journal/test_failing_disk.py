"""A write-ahead log on a failing disk: no event is acknowledged that is not safe, and no acknowledged event is lost."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st
from tests.helpers.examples import examples

from penstock.errors import WriteAheadLogError
from penstock.storage.directory import Directory, Durability
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers.memory_directory import MemoryDirectory
    from tests.journal.conftest import Kept

Keep = Callable[..., "Kept"]
Memory = type["MemoryDirectory"]

NOTHING_PROMISED = {"spark.penstock.writeAheadLog.durability": "none"}
ONE_TRY = {"spark.streaming.driver.writeAheadLog.maxFailures": "1"}


def try_to_add(kept: Kept, numbers: range, clock: ManualClock) -> list[int]:
    """Append events, every fifth one in a new segment; return the acknowledged ones."""
    safe = []
    for number in numbers:
        if number % 5 == 4:
            clock.advance(60_000)
        try:
            kept.add(number)
            safe.append(number)
        except WriteAheadLogError:
            pass
    return safe


def check(found: list[int], safe: list[int], tried: range) -> None:
    """Check that every acknowledged event was recovered, in order, and none twice or unknown."""
    assert found == sorted(set(found))
    assert set(safe) <= set(found) <= set(tried)


@pytest.mark.parametrize("can_append", [True, False])
@pytest.mark.parametrize("length", [1, 2, 3, 5, 8])
def test_full_disk_at_any_write_loses_no_acknowledged_event(
    keep: Keep, memory: Memory, clock: ManualClock, can_append: bool, length: int
) -> None:
    for first in range(60):
        directory = memory(can_append=can_append)
        kept = keep(directory)
        directory.fail_at(range(first, first + length))
        safe = try_to_add(kept, range(20), clock)
        kept.log.close()
        # An append fails only after as many consecutive failures as there are tries.
        assert len(safe) == 20 if length < 3 else len(safe) >= 20 - length
        assert kept.state.numbers == safe
        check(keep(directory.copy(), start=False).state.numbers, safe, range(20))


def test_failing_write_is_tried_max_failures_times(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, conf={"spark.streaming.driver.writeAheadLog.maxFailures": "4"})
    directory.fail_at(range(1000))
    tries = directory.count("append") + directory.count("write")
    with pytest.raises(WriteAheadLogError, match=r"4 attempts: .*No space left on device"):
        kept.add(1)
    # The first on the current segment, the others with a new one each.
    assert directory.count("append") + directory.count("write") - tries == 4
    directory.fail_at(range(0))
    kept.add(2)
    assert keep(directory.copy(), start=False).state.numbers == [2]


def test_event_written_twice_by_a_retry_is_recovered_once(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory)
    kept.add(1)
    # The commit fails after all is written, and the event is written again.
    directory.fail_at(range(1, 2))
    kept.add(2)
    kept.add(3)
    assert len(directory.names()) == 2
    assert kept.state.numbers == [1, 2, 3]
    assert keep(directory.copy(), start=False).state.numbers == [1, 2, 3]


def test_header_of_a_segment_is_on_the_disk_before_its_first_event(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory)
    directory.operations.clear()
    directory.durabilities.clear()
    directory.fail_at(range(1))
    kept.add(1)
    name = "segment-0000000001"
    begun = [operation for operation, file in directory.operations if file == name]
    assert begun == ["append", "write", "commit", "write", "commit"]
    assert directory.durabilities == [Durability.FSYNC, Durability.FLUSH]


def test_segment_that_cannot_be_appended_to_is_committed_once(keep: Keep, memory: Memory) -> None:
    directory = memory(can_append=False)
    kept = keep(directory)
    kept.add(1)
    written = [operation for operation, file in directory.operations if file == "segment-0000000001"]
    assert written == ["append", "write", "write", "commit", "close"]


def test_refused_event_on_disk_is_replaced_by_the_next_event(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, conf=ONE_TRY)
    kept.add(1)
    directory.fail_at(range(1, 2))
    with pytest.raises(WriteAheadLogError):
        kept.add(2)
    assert kept.state.numbers == [1]
    # Its outcome is unknown: it counts until another event follows.
    assert keep(directory.copy(), start=False).state.numbers == [1, 2]
    kept.add(3)
    assert keep(directory.copy(), start=False).state.numbers == [1, 3]


def test_failed_base_segment_leaves_older_events_valid(keep: Keep, memory: Memory, clock: ManualClock) -> None:
    directory = memory()
    kept = keep(directory)
    kept.add(1)
    clock.advance(60_000)
    # The second commit from here is that of the base segment, which is complete by then.
    commits = 0

    def hook(operation: str, _name: str) -> None:
        nonlocal commits
        commits += operation == "commit"
        if operation == "commit" and commits == 2:
            raise OSError(errno.EIO, "the cable")

    directory.hook = hook
    kept.add(2)
    kept.add(3)
    assert len(directory.names()) == 3
    assert keep(directory.copy(), start=False).state.numbers == [1, 2, 3]


def test_old_segments_are_deleted_after_the_base_is_flushed_without_durability(
    keep: Keep, memory: Memory, clock: ManualClock
) -> None:
    directory = memory()
    kept = keep(directory, conf=NOTHING_PROMISED)
    kept.add(1, 2)
    clock.advance(60_000)
    kept.add(3)
    kept.settle(4)
    assert directory.names() == ["segment-0000000001"]
    assert keep(directory.with_what_was_committed(), start=False).state.numbers == [1, 2, 3]


def test_events_lost_without_durability_are_not_damage(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, conf=NOTHING_PROMISED)
    kept.add(1)
    failures = iter([True])

    def hook(operation: str, _name: str) -> None:
        # The write fails, and closing cannot flush what is still in this process.
        if (operation == "write" and next(failures, False)) or operation == "close":
            raise OSError(errno.EIO, "the cable")

    directory.hook = hook
    kept.add(2)
    kept.add(3)
    assert kept.state.numbers == [1, 2, 3]
    directory.fail()
    assert keep(directory.with_what_was_committed(), start=False).state.numbers == [1]


def test_oldest_segments_are_deleted_first(keep: Keep, memory: Memory, clock: ManualClock) -> None:
    # An interrupted deletion then leaves no old state without the events that followed it.
    directory = memory(can_append=False)
    kept = keep(directory)
    kept.add(1, 2, 3)
    clock.advance(60_000)
    kept.add(4)
    kept.settle(5)
    deleted = [name for operation, name in directory.operations if operation == "delete"]
    assert deleted == [f"segment-{number:010d}" for number in range(5)]


def test_every_appender_of_a_failed_write_gets_the_error(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, conf=ONE_TRY)
    blocked, go_on = threading.Event(), threading.Event()

    def hook(operation: str, _name: str) -> None:
        if operation == "write":
            if not blocked.is_set():
                blocked.set()
                assert go_on.wait(10)
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    directory.hook = hook
    failed: list[str] = []

    def add(number: int) -> None:
        try:
            kept.add(number)
        except WriteAheadLogError as error:
            failed.append(str(error))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(5)]
    threads[0].start()
    assert blocked.wait(10)
    for thread in threads[1:]:
        thread.start()
    # Holds the race open until all events are queued.
    with kept.log._changed:
        assert kept.log._changed.wait_for(lambda: len(kept.log._queue) == 4, 10)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert len(failed) == 5
    assert all("Read-only file system" in each for each in failed)
    directory.fail()
    kept.add(9)
    assert kept.state.numbers == [9]


def test_directory_that_cannot_be_created_fails_the_start_by_name(keep: Keep, tmp_path: Path) -> None:
    kept = keep(Directory.of(str(tmp_path / "file" / "log")), start=False)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WriteAheadLogError, match="file/log could not be written"):
        kept.log.start()
    with pytest.raises(WriteAheadLogError, match="file/log cannot be read"):
        keep(Directory.of(str(tmp_path / "file" / "log")), start=False)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_read_only_directory_fails_the_start_by_name(keep: Keep, tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(WriteAheadLogError, match="Permission denied"):
        keep(Directory.of(str(tmp_path)))


def test_start_can_be_repeated_after_a_read_only_file_system(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, start=False)
    directory.fail_at(range(1000), lambda: OSError(errno.EROFS, os.strerror(errno.EROFS)))
    with pytest.raises(WriteAheadLogError, match="Read-only file system"):
        kept.log.start()
    directory.fail_at(range(0))
    kept.log.start()
    kept.add(1)


def test_directory_that_cannot_be_listed_is_not_an_empty_log(keep: Keep, memory: Memory) -> None:
    directory = memory()
    keep(directory).add(1)

    directory.fail("names", "read", error=OSError(errno.EIO, "the cable"))
    with pytest.raises(WriteAheadLogError, match=r"memory/ cannot be read: .*the cable"):
        keep(directory, start=False)


def test_writer_survives_an_unexpected_error(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory)

    directory.fail("commit", error=RuntimeError("never seen before"))
    with pytest.raises(WriteAheadLogError, match="never seen before"):
        kept.add(1)
    directory.fail()
    kept.add(2)
    assert kept.state.numbers == [2]
    assert keep(directory.copy(), start=False).state.numbers == [2]


@given(
    st.integers(0, 80),
    st.lists(st.integers(0, 80), max_size=4),
    st.booleans(),
    st.randoms(use_true_random=False),
)
@settings(max_examples=examples(50), derandomize=True, deadline=None)
def test_crash_at_any_operation_leaves_every_acknowledged_event(
    memory_and_clock: tuple[Memory, type[Kept]],
    dies_at: int,
    fails_at: list[int],
    can_append: bool,
    rng: random.Random,
) -> None:
    memory, make_kept = memory_and_clock
    directory, clock = memory(can_append=can_append), ManualClock(0)
    tried, safe = 0, list[int]()
    # Three runs, each on what the power failure of the previous one left.
    for life in range(3):
        kept = make_kept(directory, "run-1", {}, clock)
        check(kept.state.numbers, safe, range(tried))
        operations = iter(range(10**9))

        def hook(operation: str, _name: str, operations: object = operations, life: int = life) -> None:
            if operation in ("append", "write", "commit", "delete", "close"):
                number = next(operations)  # type: ignore[call-overload]  # an iterator
                if number >= dies_at + life or number in fails_at:
                    raise OSError(errno.EIO, "the cable")

        directory.hook = hook
        try:
            kept.log.start()
            for number in range(tried, tried + 15):
                if number % 4 == 3:
                    clock.advance(60_000)
                tried = number + 1
                try:
                    kept.add(number)
                    safe.append(number)
                except WriteAheadLogError:
                    pass
        except WriteAheadLogError:
            pass
        kept.log.close()
        directory = directory.after_power_loss(rng)
        # What was recovered counts from now on, acknowledged or not.
        found = make_kept(directory.copy(), "run-1", {}, clock).state.numbers
        check(found, safe, range(tried))
        safe = found


@pytest.fixture(scope="module")
def memory_and_clock() -> tuple[Memory, type[Kept]]:
    from tests.helpers.memory_directory import MemoryDirectory
    from tests.journal.conftest import Kept

    return MemoryDirectory, Kept
