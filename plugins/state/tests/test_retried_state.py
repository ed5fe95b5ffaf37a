"""State and batches that could not be generated: later batches wait for the retry, or skip the batch when it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers.engine_parts import BatchFailedError, GraphRuntime, Job

from penstock import DStream, StateSpec
from penstock.spi import node_of

if TYPE_CHECKING:
    from pyspark import RDD
    from tests.helpers.fake_graph import FakeContext, FakeInput


pytestmark = pytest.mark.usefixtures("tables")


class Sums:
    """Adds up each batch's one number; some batches cannot be made."""

    def __init__(self, context: FakeContext, make_input: Callable[..., FakeInput]) -> None:
        self.graph = context.graph
        self.failing = set[float]()
        self.seen = dict[int, Any]()
        self.graph.connect(GraphRuntime(generation_retries=1))
        self.graph.stopping.wait = lambda _timeout: False  # type: ignore[assignment, method-assign, misc]

        def check(time: Any, rdd: RDD[Any]) -> RDD[Any]:
            if time.timestamp() in self.failing:
                raise ConnectionError("not now")
            return rdd

        numbers = make_input(lambda time_ms: [[("sum", time_ms)]]).transform(check)
        sums = numbers.updateStateByKey(lambda values, state: sum(values) + (state or 0))
        sums.foreachRDD(lambda time, rdd: self.seen.update({round(time.timestamp() * 1000): dict(rdd.collect())}))
        self.graph.start(0)

    def make(self, time_ms: int) -> Job:
        (job,) = self.graph.generate_jobs(time_ms)
        return job

    @property
    def totals(self) -> dict[int, int]:
        return {time_ms: sums["sum"] for time_ms, sums in self.seen.items()}


@pytest.fixture
def sums(context: FakeContext, make_input: Callable[..., FakeInput]) -> Sums:
    return Sums(context, make_input)


def test_retried_batch_is_in_the_state_of_later_batches(sums: Sums) -> None:
    sums.make(100).run()
    sums.failing.add(0.2)
    second, third = sums.make(200), sums.make(300)
    sums.failing.clear()
    second.run()
    third.run()
    sums.make(400).run()
    assert sums.totals == {100: 100, 200: 300, 300: 600, 400: 1000}
    assert not sums.graph.retrying


def test_later_batch_computes_the_state_of_a_batch_to_be_retried(sums: Sums) -> None:
    sums.failing.add(0.1)
    first = sums.make(100)
    sums.failing.clear()
    second = sums.make(200)
    first.run()
    second.run()
    assert sums.totals == {100: 100, 200: 300}


def test_state_skips_a_batch_whose_retries_failed(sums: Sums) -> None:
    sums.make(100).run()
    sums.failing.add(0.2)
    second, third, fourth = sums.make(200), sums.make(300), sums.make(400)
    with pytest.raises(BatchFailedError, match="2 attempts: ConnectionError: not now"):
        second.run()
    third.run()
    fourth.run()
    sums.make(500).run()
    assert sums.totals == {100: 100, 300: 400, 400: 800, 500: 1300}


def test_state_advances_past_a_batch_whose_job_was_dropped(sums: Sums) -> None:
    sums.failing.add(0.1)
    sums.make(100)
    sums.graph.clear_metadata(100, unpersist=True)
    sums.make(200).run()
    assert sums.totals == {200: 200}


def test_state_times_out_in_a_batch_whose_blocks_could_not_be_allocated(
    context: FakeContext, make_input: Callable[..., FakeInput]
) -> None:
    records = {100: [[("a", 1)]], 400: [[("a", 1)]]}
    seen: dict[int, list[Any]] = {}
    mapped = make_input(lambda time_ms: records.get(time_ms, [])).mapWithState(StateSpec.function(add).timeout(0.1))
    mapped.foreachRDD(lambda time, rdd: seen.update({round(time.timestamp() * 1000): rdd.collect()}))
    context.graph.start(0)

    def run(time_ms: int) -> None:
        (job,) = context.graph.generate_jobs(time_ms)
        job.run()

    run(100)
    context.graph.unallocated |= {200, 300}
    run(400)
    # The state timed out at 300 ms, as it does when the batches run again after a restart.
    assert seen == {100: [("a", 1)], 400: [("a", 1)]}


def test_batches_without_allocation_are_forgotten_with_their_rdds(sums: Sums) -> None:
    sums.graph.unallocated |= {100, 30_000}
    sums.graph.clear_metadata(30_100, unpersist=True)
    assert sums.graph.unallocated == {30_000}


def total(values: list[int], state: int | None) -> int:
    return sum(values) + (state or 0)


def add(key: str, value: int | None, state: Any) -> tuple[str, int]:
    if value is None:
        return key, -state.get()
    state.update(total([value], state.getOption()))
    return key, state.get()


STATES: dict[str, Callable[[DStream[Any]], DStream[Any]]] = {
    "updateStateByKey": lambda stream: stream.updateStateByKey(total, initialRDD=[("a", 100)]),
    "mapWithState": lambda stream: stream.mapWithState(StateSpec.function(add).initialState([("a", 100)])),
}


@pytest.mark.parametrize("operation", STATES.values(), ids=STATES)
def test_state_outlasts_an_outage_longer_than_the_remember_duration(
    context: FakeContext, make_input: Callable[..., FakeInput], operation: Callable[[DStream[Any]], DStream[Any]]
) -> None:
    seen: dict[int, list[Any]] = {}
    last = 303

    def unless_down(time: Any, rdd: RDD[Any]) -> RDD[Any]:
        if 0.3 <= time.timestamp() <= 30:
            raise ConnectionError("the lookup service is down")
        return rdd

    states = operation(make_input(lambda _time_ms: [[("a", 1)]]).transform(unless_down))
    states.foreachRDD(lambda time, rdd: seen.update({round(time.timestamp() * 10): rdd.collect()}))
    context.graph.start(0)
    (table,) = node_of(states).parents
    assert table.remember_ms < 29_000
    for number in range(1, last + 1):
        (job,) = context.graph.generate_jobs(number * 100)
        if 3 <= number <= 300:
            with pytest.raises(BatchFailedError, match="the lookup service is down"):
                job.run()
        else:
            job.run()
        context.graph.clear_metadata(number * 100, unpersist=True)
    assert seen == {n: [("a", 100 + n)] for n in (1, 2)} | {n: [("a", n - 198)] for n in (301, 302, 303)}
