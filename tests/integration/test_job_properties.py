"""Spark's jobs know which batch and output operation they are of, those that ``transform`` starts too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark import SparkContext, TaskContext
from tests.helpers import engine_of

from penstock import StreamingContext
from penstock.spark.rdd_files import ALL_MARKED_ANCESTORS

pytestmark = pytest.mark.spark

KEYS = (
    "spark.streaming.internal.batchTime",
    "spark.streaming.internal.outputOpId",
    ALL_MARKED_ANCESTORS,
    "spark.job.interruptOnCancel",
    "spark.job.description",
    "spark.jobGroup.id",
    "penstock.test",
)
Properties = dict[str, str | None]


def of_a_job(sc: SparkContext) -> Properties:
    """What a Spark job that is started here and now carries."""

    def task(_number: int) -> Properties:
        context: Any = TaskContext.get()
        return {key: context.getLocalProperty(key) for key in KEYS}

    (found,) = sc.parallelize([0], 1).map(task).collect()
    return found


def expected(batch_time: int, output_op_id: int) -> Properties:
    time = datetime.fromtimestamp(batch_time / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    description = f"Streaming job from [output operation {output_op_id}, batch time {time}Z]"
    return dict(
        zip(KEYS, (str(batch_time), str(output_op_id), "true", "false", description, None, "before"), strict=True)
    )


def test_all_jobs_of_a_batch_carry_its_time_and_output(
    ssc: StreamingContext, sc: SparkContext, wait_for: Callable[..., None]
) -> None:
    seen: dict[tuple[str, int], list[tuple[int, Properties]]] = {}

    def note(where: str, output_op_id: int, time: Any) -> None:
        batch_time = round(time.timestamp() * 1000)
        seen.setdefault((where, output_op_id), []).append((batch_time, of_a_job(sc)))
        # It must not reach any other job.
        sc.setJobGroup("the program's", "own")
        sc.setLocalProperty("penstock.test", f"{where} {output_op_id}")

    for output_op_id in (0, 1):

        def at_generation(time: Any, rdd: Any, output_op_id: int = output_op_id) -> Any:
            note("transform", output_op_id, time)
            return rdd

        def on_the_pool(time: Any, _rdd: Any, output_op_id: int = output_op_id) -> None:
            note("foreachRDD", output_op_id, time)

        ssc.queueStream([[1]] * 3).transform(at_generation).foreachRDD(on_the_pool)
    sc.setLocalProperty("penstock.test", "before")
    sc.setJobGroup("of the main thread", "and no other")
    try:
        ssc.start()
        sc.setLocalProperty("penstock.test", "after")
        wait_for(lambda: len(seen.get(("foreachRDD", 1), [])) >= 2, "two batches")
        ssc.stop(stopSparkContext=False)
        assert set(seen) == {(where, n) for where in ("transform", "foreachRDD") for n in (0, 1)}
        for (_where, output_op_id), jobs in seen.items():
            for batch_time, found in jobs:
                assert found == expected(batch_time, output_op_id)
        assert sc.getLocalProperty("penstock.test") == "after"
        assert sc.getLocalProperty("spark.jobGroup.id") == "of the main thread"
        assert sc.getLocalProperty(KEYS[0]) is None
    finally:
        for key in ("penstock.test", "spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            sc.setLocalProperty(key, None)  # type: ignore[arg-type]


def test_jobs_name_the_batch_page_while_a_dashboard_runs(
    ssc: StreamingContext, sc: SparkContext, wait_for: Callable[..., None]
) -> None:
    seen: list[Properties] = []
    ssc.queueStream([], default=sc.emptyRDD()).foreachRDD(lambda _rdd: seen.append(of_a_job(sc)))
    ssc.start()
    engine_of(ssc).name_batch_page("http://127.0.0.1:4050/streaming/batch/?id={batch_time}")
    wait_for(lambda: seen and "http" in str(seen[-1][KEYS[4]]), "a job with a link")
    page = f"http://127.0.0.1:4050/streaming/batch/?id={seen[-1][KEYS[0]]}"
    assert str(seen[-1][KEYS[4]]).endswith(f"] {page}")


def test_jobs_of_a_retry_carry_the_batch_time_and_output_too(
    ssc: StreamingContext, sc: SparkContext, wait_for: Callable[..., None]
) -> None:
    seen: list[Properties] = []
    failing = [ValueError("once")]

    def flaky(rdd: Any) -> Any:
        if failing:
            raise failing.pop()
        seen.append(of_a_job(sc))
        return rdd

    ssc.queueStream([[1]]).transform(flaky).foreachRDD(lambda _rdd: None)
    ssc.start()
    wait_for(lambda: seen, "a second try")
    assert seen[0][KEYS[1]] == "0"
    assert seen[0][ALL_MARKED_ANCESTORS] == "true"


def test_a_batch_without_data_costs_few_calls_of_the_jvm(
    ssc: StreamingContext, sc: SparkContext, wait_for: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    gateway: Any = sc._gateway
    send_command = gateway._gateway_client.send_command

    def counted(command: str, *arguments: Any, **options: Any) -> Any:
        # Objects that are freed are none of the batch's calls, whichever thread happens to free them.
        if not command.startswith("m\n"):
            calls.append(threading.current_thread().name)
        return send_command(command, *arguments, **options)

    done: list[int] = []
    empty = sc.emptyRDD()
    ssc.queueStream([], default=empty).foreachRDD(lambda _rdd: done.append(1))
    monkeypatch.setattr(gateway._gateway_client, "send_command", counted)
    ssc.start()
    wait_for(lambda: len(done) >= 4, "four batches")
    ssc.stop(stopSparkContext=False)
    per_batch = sum(name == "JobGenerator" or name.startswith("streaming-job-executor") for name in calls) / len(done)
    # Five for what transform might start, five for the job.
    assert per_batch <= 12
