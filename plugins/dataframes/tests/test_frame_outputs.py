"""DataFrame streams without Spark: what outputs and rows get, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from plugins.dataframes.tests.conftest import Frame
from pyspark.errors import AnalysisException
from tests.helpers import run_in_background
from tests.helpers.engine_parts import BatchFailedError
from tests.helpers.fake_blocks import initialized
from tests.helpers.fake_graph import INTERVAL_MS, FakeContext, FakeRDD

from penstock import DStream, SchemaError
from penstock.spi import ResultTypeError
from penstock_dataframes.frame_nodes import (
    ToDataFrameDStream,
)


def output(context: FakeContext, time_ms: int) -> None:
    for job in context.graph.generate_jobs(time_ms):
        job.run()


def test_outputs_get_the_frame_with_what_they_ask_for(
    context: FakeContext, lines: DStream[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ToDataFrameDStream, "_frame_of", lambda _self, inputs: Frame() if inputs else None)
    calls: list[Any] = []
    stream = lines.toDF()
    stream.foreachDataFrame(lambda frame: calls.append(("frame", type(frame))))
    stream.foreachDataFrame(lambda time, frame: calls.append((time.timestamp() * 1000, type(frame))))
    stream.foreachBatch(lambda frame, batch_id: calls.append((batch_id, type(frame))))
    context.graph.zero_time_ms = None
    context.graph.start(0)
    output(context, INTERVAL_MS)
    assert calls == [("frame", Frame), (INTERVAL_MS, Frame), (INTERVAL_MS, Frame)]
    # Empty, and the schema is unknown.
    output(context, 2 * INTERVAL_MS)
    assert len(calls) == 3


def test_rows_of_an_unknown_schema_are_none(
    context: FakeContext, lines: DStream[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame: Any = SimpleNamespace(rdd=FakeRDD([["row"]]))
    monkeypatch.setattr(ToDataFrameDStream, "_frame_of", lambda _self, inputs: frame if inputs else None)
    node = initialized(lines.toDF().rows())
    assert node.get_or_compute(INTERVAL_MS) is frame.rdd
    assert node.get_or_compute(2 * INTERVAL_MS).collect() == []


def test_jobs_that_the_plan_of_rows_runs_carry_the_output(
    context: FakeContext, lines: DStream[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[Any] = []
    frame: Any = SimpleNamespace(rdd=FakeRDD([["row"]]))

    def plan(_self: ToDataFrameDStream, _inputs: Any) -> Any:
        order.append("plan")
        return frame

    monkeypatch.setattr(ToDataFrameDStream, "_frame_of", plan)
    lines.toDF().rows().map(str).foreachRDD(print)
    runtime = evolve(context.graph.runtime, before_output=lambda time_ms, output: order.append((time_ms, output)))
    context.graph.connect(runtime)
    context.graph.zero_time_ms = None
    context.graph.start(0)
    context.graph.generate_jobs(INTERVAL_MS)
    assert order == [(INTERVAL_MS, 0), "plan"]


def test_rows_that_could_not_be_planned_are_planned_again_without_the_lock(
    context: FakeContext, lines: DStream[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Any] = [RuntimeError("no slot"), RuntimeError("no slot"), SimpleNamespace(rdd=FakeRDD([["row"]]))]
    has_lock: list[bool] = []

    def plan(_self: ToDataFrameDStream, _inputs: Any) -> Any:
        has_lock.append(is_locked(context.graph.lock))
        if isinstance(result := results.pop(0), Exception):
            raise result
        return result

    monkeypatch.setattr(ToDataFrameDStream, "_frame_of", plan)
    frames: list[Any] = []
    node = initialized(lines.toDF().rows())
    DStream(node, context).foreachRDD(lambda rdd: frames.extend(rdd.collect()))  # type: ignore[arg-type]
    context.graph.connect(evolve(context.graph.runtime, generation_retries=2))
    context.graph.zero_time_ms = None
    context.graph.start(0)
    output(context, INTERVAL_MS)
    assert frames == ["row"]
    # The first attempt is the generator's.
    assert has_lock == [True, False, False]


def is_locked(lock: Any) -> bool:
    """Whether some thread has a lock, as another thread sees it."""

    def try_it() -> bool:
        if acquired := lock.acquire(blocking=False):
            lock.release()
        return not acquired

    return run_in_background(try_it).result(timeout=10)


@pytest.mark.parametrize("error", [SchemaError("no column"), ResultTypeError("no frame"), AnalysisException("no")])
def test_an_error_of_the_program_is_not_retried(
    context: FakeContext, lines: DStream[Any], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    plans: list[Any] = []

    def plan(_self: ToDataFrameDStream, inputs: Any) -> Any:
        plans.append(inputs)
        raise error

    monkeypatch.setattr(ToDataFrameDStream, "_frame_of", plan)
    lines.toDF().rows().foreachRDD(print)
    context.graph.connect(evolve(context.graph.runtime, generation_retries=3))
    context.graph.zero_time_ms = None
    context.graph.start(0)
    with pytest.raises(BatchFailedError, match="1 attempt: "):
        output(context, INTERVAL_MS)
    assert len(plans) == 1


# -- arguments --


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda df: df.select(1), TypeError, "select takes names of columns and expressions, not 1 (int)"),
        (lambda df: df.select(["a", None]), TypeError, "select takes names of columns"),
        (lambda df: df.where(lambda row: True), TypeError, "where takes names of columns and expressions"),
        (lambda df: df.withColumn("a", 1), TypeError, "withColumn takes"),
        (lambda df: df.groupBy(1), TypeError, "groupBy takes"),
        (lambda df: df.groupBy("a").agg(sum), TypeError, "agg takes"),
        (lambda df: df.groupBy("a").agg(), ValueError, "agg needs at least one expression"),
        (lambda df: df.join(17), TypeError, "join takes a DataFrame, a function that returns one"),
        (lambda df: df.sql(None), TypeError, "sql takes the text of a query, not None"),
        (lambda df: df.transform("a"), TypeError, "func must be a function, not 'a'"),
        (lambda df: df.foreachBatch(None), TypeError, "func must be a function"),
        (lambda df: df.foreachDataFrame(lambda a, b, c: None), AssertionError, "one or two arguments"),
        (lambda df: df.pprint("all"), TypeError, "pprint takes a number of rows, not 'all'"),
    ],
    ids=[
        "select",
        "select list",
        "where",
        "withColumn",
        "groupBy",
        "agg",
        "agg nothing",
        "join",
        "sql",
        "transform",
        "foreachBatch",
        "foreachDataFrame",
        "pprint",
    ],
)
def test_a_bad_argument_is_refused_at_once(
    lines: DStream[Any], use: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        use(lines.toDF())
    assert message in str(raised.value)


def test_a_stream_of_records_is_not_joined_with_frames(lines: DStream[Any]) -> None:
    with pytest.raises(TypeError, match="not DStream: use its toDF"):
        lines.toDF().join(lines)  # type: ignore[arg-type]
