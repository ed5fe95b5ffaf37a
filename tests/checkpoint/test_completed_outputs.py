"""``CompletedOutputs``: what is done is known to the next run, and a state has been through it all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.graph.conftest import FakeContext, FakeInput, context, tables  # noqa: F401
from tests.helpers.memory_directory import MemoryDirectory

from penstock.checkpoint.completed_outputs import CompletedOutputs
from penstock.conf import Settings
from penstock.graph.graph_runtime import GraphRuntime
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.runtime.clock import ManualClock

if TYPE_CHECKING:
    from pyspark import RDD

NAMES = {0: "pprint-0", 1: "sink"}


def opened(disk: MemoryDirectory, names: dict[int, str] = NAMES) -> CompletedOutputs:
    made = CompletedOutputs(WriteAheadLog(disk, "run", Settings({}), ManualClock(0)), names)
    made.start()
    return made


def test_what_was_noted_is_known_to_the_next_run_by_its_name() -> None:
    disk = MemoryDirectory()
    first = opened(disk)
    first.note(1000, 0)
    first.note(2000, 1)
    assert [first.has(1000, 0), first.has(1000, 1), first.has(2000, 1)] == [True, False, True]
    second = opened(disk.copy(), {0: "new", 1: "pprint-0", 2: "sink"})
    assert [second.has(1000, 0), second.has(1000, 1), second.has(2000, 2)] == [False, True, True]
    first.close()
    second.close()


def test_what_no_run_will_make_again_is_forgotten() -> None:
    disk = MemoryDirectory()
    first = opened(disk)
    for time_ms in (1000, 2000):
        first.note(time_ms, 0)
    first.clean_up(2000)
    assert [first.has(1000, 0), first.has(2000, 0)] == [False, True]
    second = opened(disk.copy())
    assert [second.has(1000, 0), second.has(2000, 0)] == [False, True]
    first.close()
    second.close()


class Done:
    """Knows one output of one batch."""

    def __init__(self, time_ms: int, output_op_id: int) -> None:
        self._what = (time_ms, output_op_id)
        self.noted: list[tuple[int, int]] = []

    def note(self, time_ms: int, output_op_id: int) -> None:
        self.noted.append((time_ms, output_op_id))

    def has(self, time_ms: int, output_op_id: int) -> bool:
        return (time_ms, output_op_id) == self._what


@pytest.mark.usefixtures("tables")
def test_an_output_that_is_not_repeated_leaves_no_hole_in_a_state(context: FakeContext) -> None:  # noqa: F811
    seen: dict[int, Any] = {}
    other: list[int] = []

    def note(time: Any, rdd: RDD[Any]) -> None:
        seen[round(time.timestamp() * 1000)] = dict(rdd.collect())

    source = FakeInput(context, lambda time_ms: [[("sum", time_ms)]])
    source.updateStateByKey(lambda values, state: sum(values) + (state or 0)).foreachRDD(note)
    source.foreachRDD(lambda rdd: other.append(rdd.getNumPartitions()))
    done = Done(200, 0)
    context.graph.connect(GraphRuntime(completed_outputs=done))
    context.graph.start(0)
    for time_ms in (100, 200, 300):
        for job in context.graph.generate_jobs(time_ms):
            job.run()
        context.graph.clear_metadata(time_ms, unpersist=True)
    assert seen == {100: {"sum": 100}, 300: {"sum": 600}}
    assert done.noted == [(100, 0), (100, 1), (200, 1), (300, 0), (300, 1)]


@pytest.mark.usefixtures("tables")
def test_an_output_that_is_done_is_not_repeated_by_a_further_try(context: FakeContext) -> None:  # noqa: F811
    context.graph.connect(GraphRuntime(generation_retries=1, completed_outputs=Done(100, 0)))
    context.graph.stopping.wait = lambda _timeout: False  # type: ignore[assignment, method-assign, misc]
    fails = [True]
    seen: list[Any] = []

    def transform(rdd: RDD[Any]) -> RDD[Any]:
        if fails:
            fails.pop()
            raise ConnectionError("not now")
        return rdd

    make: Callable[..., Any] = FakeInput(context, lambda time_ms: [[time_ms]]).transform
    make(transform).foreachRDD(seen.append)
    context.graph.start(0)
    (job,) = context.graph.generate_jobs(100)
    job.run()
    assert seen == []
