"""Retries of an output whose RDD could not be generated; without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import run_in_background, wait_for

from penstock import StreamInputInfo
from penstock.errors import BatchFailedError
from penstock.graph.dstream_graph import GraphRuntime
from penstock.schedule.input_info_tracker import InputInfoTracker

if TYPE_CHECKING:
    from tests.helpers.fake_graph import FakeContext, FakeInput

MakeInput = Callable[..., "FakeInput"]


class Flaky:
    """A function for ``transform`` that raises a number of times before it succeeds."""

    def __init__(self, failures: int, error: BaseException | None = None) -> None:
        self.left = failures
        self.calls = 0
        self._error = error

    def __call__(self, rdd: Any) -> Any:
        self.calls += 1
        if self.left > 0:
            self.left -= 1
            raise self._error or ValueError(f"failure {self.calls}")
        return rdd


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("failures", [0, 1, 2])
def test_output_runs_when_a_retry_generates_its_rdd(
    make_input: MakeInput, context: FakeContext, failures: int, error: BaseException
) -> None:
    seen: list[Any] = []
    flaky = Flaky(failures, error)
    make_input().transform(flaky).foreachRDD(lambda rdd: seen.append(rdd.collect()))
    context.graph.connect(GraphRuntime(generation_retries=2))
    context.graph.start(0)
    (job,) = context.graph.generate_jobs(100)
    # What the generator's loop does for it is one try, and no wait.
    assert flaky.calls == 1
    job.run()
    assert seen == [[100, 101, 102]]
    assert flaky.calls == failures + 1


def test_retry_does_not_compute_the_input_again(make_input: MakeInput, context: FakeContext) -> None:
    source = make_input()
    source.transform(Flaky(2)).foreachRDD(lambda _rdd: None)
    context.graph.connect(GraphRuntime(generation_retries=2))
    context.graph.start(0)
    (job,) = context.graph.generate_jobs(100)
    job.run()
    assert source.node.computed == [100]


def test_error_of_an_output_without_rdd_names_the_output_and_the_tries(
    make_input: MakeInput, context: FakeContext
) -> None:
    make_input().foreachRDD(print)
    make_input().transform(Flaky(99)).foreachRDD(print)
    context.graph.connect(GraphRuntime(generation_retries=2))
    context.graph.start(0)
    (_fine, job) = context.graph.generate_jobs(100)
    with pytest.raises(BatchFailedError) as raised:
        job.run()
    where = f"output operation 1 ({job.call_site.short}) of batch 1970-01-01T00:00:00.100Z"
    assert f"{where} failed: its RDD could not be generated after 3 attempts" in str(raised.value)
    assert "ValueError: failure 3" in str(raised.value)
    assert isinstance(raised.value.__cause__, ValueError)


def test_retry_that_finds_no_rdd_runs_nothing(make_input: MakeInput, context: FakeContext) -> None:
    seen: list[Any] = []
    failing = [ValueError("once")]

    def nothing_then(_rdd: Any) -> Any:
        if failing:
            raise failing.pop()

    make_input().transform(nothing_then).foreachRDD(seen.append)
    context.graph.connect(GraphRuntime(generation_retries=1))
    context.graph.start(0)
    (job,) = context.graph.generate_jobs(100)
    job.run()
    assert seen == []


def test_retry_holds_the_graph_lock(make_input: MakeInput, context: FakeContext) -> None:
    flaky, lock = Flaky(1), context.graph.lock
    free: list[bool] = []

    def is_free() -> bool:
        """Whether another thread could take the lock now."""
        taken = lock.acquire(blocking=False)
        if taken:
            lock.release()
        return taken

    def generate(rdd: Any) -> Any:
        free.append(run_in_background(is_free).result(timeout=10))
        return flaky(rdd)

    make_input().transform(generate).foreachRDD(lambda _rdd: None)
    context.graph.connect(GraphRuntime(generation_retries=1))
    context.graph.start(0)
    (job,) = context.graph.generate_jobs(100)
    job.run()
    assert flaky.calls == 2
    assert free == [False, False]


def test_stop_ends_the_wait_for_a_retry(make_input: MakeInput, context: FakeContext) -> None:
    flaky = Flaky(99)
    make_input().transform(flaky).foreachRDD(print)
    context.graph.connect(GraphRuntime(generation_retries=1_000_000))
    context.graph.start(0)
    (job,) = context.graph.generate_jobs(100)
    running = run_in_background(job.run)
    wait_for(lambda: flaky.calls >= 2, "a retry")
    context.graph.stop()
    with pytest.raises(BatchFailedError, match="could not be generated"):
        running.result(timeout=10)


def test_error_of_the_output_function_is_not_retried(make_input: MakeInput, context: FakeContext) -> None:
    output = Flaky(99)
    make_input().transform(Flaky(1)).foreachRDD(output)
    context.graph.connect(GraphRuntime(generation_retries=5))
    context.graph.start(0)
    (job,) = context.graph.generate_jobs(100)
    with pytest.raises(ValueError, match="failure 1"):
        job.run()
    assert output.calls == 1


def test_input_reported_by_a_retry_is_in_the_final_info(make_input: MakeInput, context: FakeContext) -> None:
    infos = InputInfoTracker()
    context.graph.connect(GraphRuntime(report_input=infos.report, generation_retries=1))
    failing = [ConnectionError("not now")]

    def batches(time_ms: int) -> list[list[int]]:
        if failing:
            raise failing.pop()
        context.graph.runtime.report_input(time_ms, StreamInputInfo(0, 2), None)
        return [[1, 2]]

    make_input(batches).foreachRDD(lambda _rdd: None)
    context.graph.start(0)
    (job,) = context.graph.generate_jobs(100)
    assert infos.info(100) == {}
    job.run()
    assert infos.final_info(100)[0].numRecords == 2


def test_before_output_is_called_before_each_output_is_generated(make_input: MakeInput, context: FakeContext) -> None:
    order: list[Any] = []
    source = make_input()

    def noted(name: str) -> Callable[[Any], Any]:
        def transform(rdd: Any) -> Any:
            order.append(name)
            return rdd

        return transform

    for name in ("a", "b"):
        source.transform(noted(name)).foreachRDD(print)
    context.graph.connect(GraphRuntime(before_output=lambda time_ms, output: order.append((time_ms, output))))
    context.graph.start(0)
    context.graph.generate_jobs(100)
    assert order == [(100, 0), "a", (100, 1), "b"]


def test_before_output_is_not_called_for_functions_of_operators(make_input: MakeInput, context: FakeContext) -> None:
    order: list[Any] = []
    source = make_input(lambda _time_ms: [[("a", 1)]])
    source.count().foreachRDD(print)
    source.repartition(2).foreachRDD(print)
    source.join(source).foreachRDD(print)
    context.graph.connect(GraphRuntime(before_output=lambda *output: order.append(output)))
    context.graph.start(0)
    context.graph.generate_jobs(100)
    assert order == []


def test_slowest_output_of_a_batch_is_recorded(make_input: MakeInput, context: FakeContext) -> None:
    now_ms = [0.0]

    def took(duration_ms: float) -> Callable[[Any], Any]:
        def transform(rdd: Any) -> Any:
            now_ms[0] += duration_ms
            return rdd

        return transform

    source = make_input()
    for duration_ms in (5, 70, 6):
        source.transform(took(duration_ms)).foreachRDD(print)
    context.graph.connect(GraphRuntime(monotonic_ms=lambda: now_ms[0]))
    context.graph.start(0)
    jobs = context.graph.generate_jobs(100)
    assert context.graph.slowest == (70, jobs[1].call_site.short)


def test_jobs_of_a_batch_that_was_not_generated_raise_the_reason(make_input: MakeInput, context: FakeContext) -> None:
    for _ in range(2):
        make_input().foreachRDD(print)
    error = BatchFailedError("the blocks are away")
    jobs = context.graph.failed_jobs(error)
    assert [job.output_op_id for job in jobs] == [0, 1]
    for job in jobs:
        with pytest.raises(BatchFailedError, match="the blocks are away"):
            job.run()
