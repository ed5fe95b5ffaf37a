"""A batch that could not be made, and state: later batches wait for it, or go on without it once it is given up."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import BatchFailedError
from penstock.graph import table
from penstock.graph.output_job import OutputJob

if TYPE_CHECKING:
    from pyspark import RDD
    from tests.graph.conftest import FakeContext, FakeInput, FakeRDD


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def union(_sc: Any, rdds: list[FakeRDD], _num_partitions: int) -> FakeRDD:
        united = zip(*(rdd.partitions for rdd in rdds), strict=True)
        return type(rdds[0])([list(itertools.chain(*partitions)) for partitions in united])

    monkeypatch.setattr(table, "co_partitioned_union", union)


class Sums:
    """Adds up each batch's one number; some batches cannot be made."""

    def __init__(self, context: FakeContext, make_input: Callable[..., FakeInput]) -> None:
        self.graph, self.failing, self.seen = context.graph, set[float](), dict[int, Any]()
        self.graph.generation_retries = 1
        self.graph.stopping.wait = lambda _timeout: False  # type: ignore[assignment, method-assign, misc]

        def check(time: Any, rdd: RDD[Any]) -> RDD[Any]:
            if time.timestamp() in self.failing:
                raise ConnectionError("not now")
            return rdd

        numbers = make_input(lambda time_ms: [[("sum", time_ms)]]).transform(check)
        sums = numbers.updateStateByKey(lambda values, state: sum(values) + (state or 0))
        sums.foreachRDD(lambda time, rdd: self.seen.update({round(time.timestamp() * 1000): dict(rdd.collect())}))
        self.graph.start(0)

    def make(self, time_ms: int) -> OutputJob:
        (job,) = self.graph.generate_jobs(time_ms)
        return job

    @property
    def totals(self) -> dict[int, int]:
        return {time_ms: sums["sum"] for time_ms, sums in self.seen.items()}


@pytest.fixture
def sums(context: FakeContext, make_input: Callable[..., FakeInput]) -> Sums:
    return Sums(context, make_input)


def test_a_batch_that_is_made_late_is_in_the_state_of_those_behind_it(sums: Sums) -> None:
    sums.make(100).run()
    sums.failing.add(0.2)
    second, third = sums.make(200), sums.make(300)
    sums.failing.clear()
    second.run()
    third.run()
    sums.make(400).run()
    assert sums.totals == {100: 100, 200: 300, 300: 600, 400: 1000}
    assert not sums.graph.unmade


def test_a_batch_behind_it_makes_it(sums: Sums) -> None:
    sums.failing.add(0.1)
    first = sums.make(100)
    sums.failing.clear()
    second = sums.make(200)
    first.run()
    second.run()
    assert sums.totals == {100: 100, 200: 300}


def test_a_batch_that_is_given_up_is_left_out(sums: Sums) -> None:
    sums.make(100).run()
    sums.failing.add(0.2)
    second, third, fourth = sums.make(200), sums.make(300), sums.make(400)
    with pytest.raises(BatchFailedError, match="2 tries: ConnectionError: not now"):
        second.run()
    third.run()
    fourth.run()
    sums.make(500).run()
    assert sums.totals == {100: 100, 300: 400, 400: 800, 500: 1300}


def test_a_batch_whose_job_never_ran_holds_up_none_for_ever(sums: Sums) -> None:
    sums.failing.add(0.1)
    sums.make(100)
    sums.graph.clear_metadata(100, unpersist=True)
    sums.make(200).run()
    assert sums.totals == {200: 200}
