"""``CheckpointWriter``: the youngest checkpoint is written, whatever fails, without blocking its caller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.checkpoint.samples import Disk, numbered
from tests.helpers.memory_directory import full_disk

from penstock.checkpoint.checkpoint_format import Checkpoint
from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.checkpoint.checkpoint_writer import CheckpointWriter


class Writing:
    """A writer on a disk whose writes can be blocked and can fail."""

    def __init__(self) -> None:
        self.disk, self.going, self.reached = Disk(), threading.Event(), threading.Event()
        self.going.set()
        self.fails: Callable[[], bool] = lambda: False
        self.tries = 0
        self.disk.hook = self._hook
        self.written: list[int] = []
        self.failures: list[int] = []
        self.on_written: Callable[[], object] = lambda: None
        self.on_failures: Callable[[], object] = lambda: None
        self._changed = threading.Condition()
        self.store = CheckpointStore(self.disk)
        self.writer = CheckpointWriter(self.store, self._on_written, self._on_failures)
        self.writer.start()

    def _hook(self, operation: str, _name: str) -> None:
        if operation == "write":
            self.tries += 1
            self.reached.set()
            assert self.going.wait(30)
            if self.fails():
                raise full_disk()

    def _on_written(self, _oldest: Checkpoint) -> None:
        with self._changed:
            self.written.append(self.store.retained[-1].number)
            self._changed.notify_all()
        self.on_written()

    def _on_failures(self, count: int, error: BaseException) -> None:
        assert "No space" in str(error)
        with self._changed:
            self.failures.append(count)
            self._changed.notify_all()
        self.on_failures()

    def write(self, number: int) -> None:
        """Write a checkpoint; return when it is written or has failed."""
        with self._changed:
            before = len(self.written) + len(self.failures)
            self.writer.write(numbered(number))
            assert self._changed.wait_for(lambda: len(self.written) + len(self.failures) > before, 30)


@pytest.fixture
def writing() -> Iterator[Writing]:
    made = Writing()
    yield made
    made.going.set()
    made.writer.stop(10)


def test_younger_checkpoint_replaces_the_waiting_one(writing: Writing) -> None:
    writing.going.clear()
    writing.writer.write(numbered(1))
    assert writing.reached.wait(30)
    for number in (2, 3, 4):
        writing.writer.write(numbered(number))
    writing.going.set()
    assert writing.writer.stop(30)
    assert writing.written == [1, 4]


def test_stop_writes_the_waiting_checkpoint(writing: Writing) -> None:
    writing.writer.write(numbered(1))
    assert writing.writer.stop(30)
    assert writing.written == [1]


def test_stop_reports_that_its_timeout_has_passed(writing: Writing) -> None:
    writing.going.clear()
    writing.writer.write(numbered(1))
    assert not writing.writer.stop(0.01)


def test_write_is_attempted_three_times(writing: Writing) -> None:
    writing.fails = lambda: writing.tries < 3
    writing.write(1)
    assert (writing.written, writing.failures, writing.tries) == ([1], [], 3)


def test_consecutive_failures_are_counted_until_a_write_succeeds(writing: Writing) -> None:
    writing.fails = lambda: True
    for number in (1, 2, 3):
        writing.write(number)
    assert writing.failures == [1, 2, 3]
    assert writing.writer.failures == 3
    writing.fails = lambda: False
    writing.write(4)
    assert writing.writer.failures == 0
    writing.fails = lambda: True
    writing.write(5)
    assert writing.failures == [1, 2, 3, 1]


def raise_error() -> None:
    raise RuntimeError("a bad listener")


def test_writer_survives_callbacks_that_raise(writing: Writing) -> None:
    writing.on_written = writing.on_failures = raise_error
    writing.write(1)
    writing.fails = lambda: True
    writing.write(2)
    writing.fails = lambda: False
    writing.write(3)
    assert (writing.written, writing.failures) == ([1, 3], [1])
