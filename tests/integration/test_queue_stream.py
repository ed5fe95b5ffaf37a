"""Streams of a queue of RDDs."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock import DStream, StreamingContext
from penstock_testing import ManualClock

pytestmark = pytest.mark.spark


class Program:
    """A program whose batches are due when the test says so.

    Args:
        sc: runs the jobs.
    """

    def __init__(self, sc: Any) -> None:
        self.clock = ManualClock()
        self.ssc = StreamingContext(sc, 1.0, clock=self.clock)
        self._batches: queue.Queue[list[Any]] = queue.Queue()

    def start(self, stream: DStream[Any]) -> None:
        """Begin to collect the stream."""
        stream.foreachRDD(lambda rdd: self._batches.put(rdd.collect()))
        self.ssc.start()

    def batch(self) -> list[Any]:
        """The next batch."""
        self.clock.await_waiters()
        self.clock.advance(1000)
        return self._batches.get(timeout=30)


@pytest.fixture
def program(sc: Any) -> Iterator[Program]:
    program = Program(sc)
    yield program
    program.ssc.stop(stopSparkContext=False)


# -- the queue itself --


def test_later_changes_of_a_list_are_ignored(program: Program) -> None:
    rdds = [[1], [2]]
    program.start(program.ssc.queueStream(rdds))
    assert program.batch() == [1]
    rdds.clear()
    rdds.append([9])
    assert [program.batch() for _ in range(2)] == [[2], []]


@pytest.mark.parametrize(("kind", "put"), [(deque, deque.append), (queue.Queue, queue.Queue.put)])
def test_a_queue_can_be_filled_while_it_runs(
    program: Program, kind: type[Any], put: Callable[[Any, Any], None]
) -> None:
    rdds = kind()
    put(rdds, [1])
    program.start(program.ssc.queueStream(rdds))
    assert [program.batch() for _ in range(2)] == [[1], []]
    put(rdds, [2])
    put(rdds, program.ssc.sparkContext.parallelize([3]))
    assert [program.batch() for _ in range(3)] == [[2], [3], []]


@pytest.mark.parametrize(("kind", "put"), [(deque, deque.append), (queue.Queue, queue.Queue.put)])
def test_all_at_once_takes_everything_queued_so_far(
    program: Program, kind: type[Any], put: Callable[[Any, Any], None]
) -> None:
    rdds = kind()
    for number in (1, 2, 3):
        put(rdds, [number])
    program.start(program.ssc.queueStream(rdds, oneAtATime=False))
    assert program.batch() == [1, 2, 3]
    for number in (4, 5):
        put(rdds, [number])
    assert [program.batch() for _ in range(2)] == [[4, 5], []]


@pytest.mark.parametrize("kind", [list, deque, queue.Queue])
@pytest.mark.parametrize("as_rdd", [True, False], ids=["rdd", "collection"])
def test_a_default_is_for_batches_that_find_nothing(program: Program, kind: type[Any], as_rdd: bool) -> None:
    default = program.ssc.sparkContext.parallelize([7, 8]) if as_rdd else (7, 8)
    program.start(program.ssc.queueStream(kind(), default=default))
    assert [program.batch() for _ in range(2)] == [[7, 8], [7, 8]]


def test_an_empty_default_gives_empty_batches(program: Program) -> None:
    program.start(program.ssc.queueStream([], default=[]))
    assert program.batch() == []


def test_items_can_be_any_collection(program: Program) -> None:
    program.start(program.ssc.queueStream([range(2), (2, 3), "ab", iter([4])]))
    assert [program.batch() for _ in range(4)] == [[0, 1], [2, 3], ["a", "b"], [4]]


def test_one_rdd_can_be_several_batches(program: Program) -> None:
    rdd = program.ssc.sparkContext.parallelize([1])
    program.start(program.ssc.queueStream([rdd] * 3))
    assert [program.batch() for _ in range(3)] == [[1], [1], [1]]
