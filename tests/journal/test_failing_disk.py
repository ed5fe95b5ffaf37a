"""A journal on a disk that fails: nobody hears that an event is safe when it is not, and none that is safe is lost."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import WriteAheadLogError
from penstock.runtime.clock import ManualClock
from penstock.storage.directory import Directory

if TYPE_CHECKING:
    from tests.helpers.memory_directory import MemoryDirectory
    from tests.journal.conftest import Kept

Keep = Callable[..., "Kept"]
Memory = type["MemoryDirectory"]

CLOSES = {"spark.streaming.driver.writeAheadLog.closeFileAfterWrite": "true"}
NOTHING_PROMISED = {"spark.penstock.writeAheadLog.durability": "none"}
ONE_TRY = {"spark.streaming.driver.writeAheadLog.maxFailures": "1"}


def try_to_add(kept: Kept, numbers: range, clock: ManualClock) -> list[int]:
    """Append some, every fifth one in a new file; say which were acknowledged."""
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
    """All that is safe is there, in order, and nothing that was not tried; nothing twice."""
    assert found == sorted(set(found))
    assert set(safe) <= set(found) <= set(tried)


@pytest.mark.parametrize("conf", [{}, CLOSES], ids=["append", "close"])
@pytest.mark.parametrize("length", [1, 2, 3, 5, 8])
def test_a_full_disk_at_any_write_loses_nothing_that_was_acknowledged(
    keep: Keep, memory: Memory, clock: ManualClock, conf: dict[str, str], length: int
) -> None:
    for first in range(60):
        directory = memory()
        kept = keep(directory, conf=conf)
        directory.fail_at(range(first, first + length))
        safe = try_to_add(kept, range(20), clock)
        kept.journal.close()
        # So many failures in a row as there are tries are needed for one that is seen.
        assert len(safe) == 20 if length < 3 else len(safe) >= 20 - length
        assert kept.fold.numbers == safe
        check(keep(directory.copy(), start=False).fold.numbers, safe, range(20))


def test_a_write_that_fails_is_tried_so_often_and_no_more(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, conf={"spark.streaming.driver.writeAheadLog.maxFailures": "4"})
    directory.fail_at(range(1000))
    tries = directory.count("append") + directory.count("write")
    with pytest.raises(WriteAheadLogError, match=r"tries: 4: .*No space left on device"):
        kept.add(1)
    # The first on the file at hand, each other with a new one.
    assert directory.count("append") + directory.count("write") - tries == 4
    directory.fail_at(range(0))
    kept.add(2)
    assert keep(directory.copy(), start=False).fold.numbers == [2]


def test_a_write_that_was_made_though_it_failed_is_there_once(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory)
    kept.add(1)
    # The commit fails when all is written: then it is written again.
    directory.fail_at(range(1, 2))
    kept.add(2)
    kept.add(3)
    assert len(directory.names()) == 2
    assert kept.fold.numbers == [1, 2, 3]
    assert keep(directory.copy(), start=False).fold.numbers == [1, 2, 3]


def test_what_was_refused_and_written_all_the_same_gives_way_to_what_comes_next(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, conf=ONE_TRY)
    kept.add(1)
    directory.fail_at(range(1, 2))
    with pytest.raises(WriteAheadLogError):
        kept.add(2)
    assert kept.fold.numbers == [1]
    # Its outcome is unknown, and as long as nothing follows it counts.
    assert keep(directory.copy(), start=False).fold.numbers == [1, 2]
    kept.add(3)
    assert keep(directory.copy(), start=False).fold.numbers == [1, 3]


def test_a_new_file_that_fails_does_not_make_older_events_count_less(
    keep: Keep, memory: Memory, clock: ManualClock
) -> None:
    directory = memory()
    kept = keep(directory)
    kept.add(1)
    clock.advance(60_000)
    # Of the next operations: write, commit, append, write; then the commit of the new file, which is whole by then.
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
    assert keep(directory.copy(), start=False).fold.numbers == [1, 2, 3]


def test_old_files_go_when_the_new_one_is_safe_whatever_is_promised_for_events(
    keep: Keep, memory: Memory, clock: ManualClock
) -> None:
    directory = memory()
    kept = keep(directory, conf=NOTHING_PROMISED)
    kept.add(1, 2)
    clock.advance(60_000)
    kept.add(3)
    kept.settle(4)
    assert directory.names() == ["journal-0000000001"]
    assert keep(directory.with_what_was_committed(), start=False).fold.numbers == [1, 2, 3]


def test_events_that_were_lost_for_want_of_a_promise_are_no_damage(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, conf=NOTHING_PROMISED)
    kept.add(1)
    failures = iter([True])

    def hook(operation: str, _name: str) -> None:
        # The write fails, and what waited in this process cannot be written any more when the file ends.
        if (operation == "write" and next(failures, False)) or operation == "close":
            raise OSError(errno.EIO, "the cable")

    directory.hook = hook
    kept.add(2)
    kept.add(3)
    assert kept.fold.numbers == [1, 2, 3]
    directory.hook = lambda _operation, _name: None
    assert keep(directory.with_what_was_committed(), start=False).fold.numbers == [1]


def test_the_oldest_files_go_first(keep: Keep, memory: Memory, clock: ManualClock) -> None:
    # Then a deletion that is cut short leaves no older state that has lost what came behind it.
    directory = memory()
    kept = keep(directory, conf=CLOSES)
    kept.add(1, 2, 3)
    clock.advance(60_000)
    kept.add(4)
    kept.settle(5)
    deleted = [name for operation, name in directory.operations if operation == "delete"]
    assert deleted == [f"journal-{number:010d}" for number in range(5)]


def test_everybody_of_a_group_that_failed_is_told(keep: Keep, memory: Memory) -> None:
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
    with kept.journal._changed:
        assert kept.journal._changed.wait_for(lambda: len(kept.journal._queue) == 4, 10)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert len(failed) == 5
    assert all("Read-only file system" in each for each in failed)
    directory.hook = lambda _operation, _name: None
    kept.add(9)
    assert kept.fold.numbers == [9]


def test_a_folder_that_cannot_be_made_fails_the_start_by_name(keep: Keep, tmp_path: Path) -> None:
    kept = keep(Directory.of(str(tmp_path / "file" / "journal")), start=False)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WriteAheadLogError, match="file/journal cannot be written"):
        kept.journal.start()
    with pytest.raises(WriteAheadLogError, match="file/journal cannot be read"):
        keep(Directory.of(str(tmp_path / "file" / "journal")), start=False)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_fails_the_start_by_name(keep: Keep, tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(WriteAheadLogError, match="Permission denied"):
        keep(Directory.of(str(tmp_path)))


def test_a_read_only_file_system_fails_the_start_and_may_be_tried_again(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory, start=False)
    directory.fail_at(range(1000), lambda: OSError(errno.EROFS, os.strerror(errno.EROFS)))
    with pytest.raises(WriteAheadLogError, match="Read-only file system"):
        kept.journal.start()
    directory.fail_at(range(0))
    kept.journal.start()
    kept.add(1)


def test_a_folder_that_cannot_be_listed_is_not_an_empty_journal(keep: Keep, memory: Memory) -> None:
    directory = memory()
    keep(directory).add(1)

    def hook(operation: str, _name: str) -> None:
        if operation in ("names", "read"):
            raise OSError(errno.EIO, "the cable")

    directory.hook = hook
    with pytest.raises(WriteAheadLogError, match=r"memory/ cannot be read: .*the cable"):
        keep(directory, start=False)


def test_the_writer_outlives_an_error_that_nobody_thought_of(keep: Keep, memory: Memory) -> None:
    directory = memory()
    kept = keep(directory)

    def hook(operation: str, _name: str) -> None:
        if operation == "commit":
            raise RuntimeError("never seen before")

    directory.hook = hook
    with pytest.raises(WriteAheadLogError, match="never seen before"):
        kept.add(1)
    directory.hook = lambda _operation, _name: None
    kept.add(2)
    assert kept.fold.numbers == [2]
    assert keep(directory.copy(), start=False).fold.numbers == [2]


@given(
    st.integers(0, 80),
    st.lists(st.integers(0, 80), max_size=4),
    st.sampled_from([{}, CLOSES]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=300, derandomize=True, deadline=None)
def test_a_crash_at_any_moment_leaves_all_that_was_acknowledged(
    memory_and_clock: tuple[Memory, type[Kept]],
    dies_at: int,
    fails_at: list[int],
    conf: dict[str, str],
    rng: random.Random,
) -> None:
    memory, make_kept = memory_and_clock
    directory, clock = memory(), ManualClock(0)
    tried, safe = 0, list[int]()
    # Three lives, each on what the power loss of the one before has left.
    for life in range(3):
        kept = make_kept(directory, "run-1", conf, clock)
        check(kept.fold.numbers, safe, range(tried))
        operations = iter(range(10**9))

        def hook(operation: str, _name: str, operations: object = operations, life: int = life) -> None:
            if operation in ("append", "write", "commit", "delete", "close"):
                number = next(operations)  # type: ignore[call-overload]  # an iterator
                if number >= dies_at + life or number in fails_at:
                    raise OSError(errno.EIO, "the cable")

        directory.hook = hook
        try:
            kept.journal.start()
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
        kept.journal.close()
        directory = directory.after_power_loss(rng)
        # What is there counts from now on, asked for or not.
        found = make_kept(directory.copy(), "run-1", conf, clock).fold.numbers
        check(found, safe, range(tried))
        safe = found


@pytest.fixture(scope="module")
def memory_and_clock() -> tuple[Memory, type[Kept]]:
    from tests.helpers.memory_directory import MemoryDirectory
    from tests.journal.conftest import Kept

    return MemoryDirectory, Kept
