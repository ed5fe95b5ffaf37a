"""DataFrame streams without Spark: what a batch is read from, when its DataFrame is made, and what is refused.

A long file, because every source of a batch goes through the same cases.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from pyspark.errors import AnalysisException
from pyspark.sql import types
from tests.helpers import run_in_background
from tests.helpers.engine_parts import BatchFailedError, PulledInputDStream, ReceiverInputDStream, WindowedDStream
from tests.helpers.fake_blocks import TEXT, Reader, initialized
from tests.helpers.fake_graph import INTERVAL_MS, FakeContext, FakeRDD

from penstock import ArrowInput, ConfigurationError, DStream, SchemaError, SourceBatch
from penstock.spi import BlocksInput, ResultTypeError, node_of
from penstock_dataframes.frame_nodes import (
    BatchFrame,
    DataFrameDStream,
    Lazy,
    ToDataFrameDStream,
    TransformedDataFrameDStream,
)
from penstock_dataframes.jvm_frames import BatchFrames


def test_dataframes_are_prepared_if_an_output_needs_them(lines: DStream[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    graph, frame = node_of(lines).graph, lines.toDF()
    prepared: list[int] = []
    monkeypatch.setattr(BatchFrames, "prepare", lambda _frames, tasks, *_query: prepared.append(tasks))
    lines.foreachRDD(lambda _rdd: None)
    graph.prepare()
    assert prepared == []
    frame.select("value").pprint()
    graph.prepare()
    # The source and the selection: one query for both, see test_jvm_frames.
    assert prepared == [1, 1]


def test_inputs_that_are_read_alike_are_united(lines: DStream[Any], context: FakeContext) -> None:
    frames = ToDataFrameDStream(node_of(lines), None)
    mb = 1 << 20
    # Spark would be needed to see the combined inputs in a DataFrame.
    first, second = (BlocksInput((payload,), ((),), mb, Reader()) for payload in (b"1", b"2"))  # type: ignore[arg-type]
    assert list(frames._combined([first, second])) == [BlocksInput((b"1", b"2"), ((), ()), 2 * mb, Reader())]  # type: ignore[arg-type]
    (combined,) = frames._combined([ArrowInput(FakeRDD([[n]]), Reader(), lambda: TEXT) for n in range(2)])
    assert isinstance(combined, ArrowInput)
    assert combined.references is not None
    assert combined.references.collect() == [0, 1]
    rows = [FakeRDD([["a"]]), FakeRDD([["b"]])]
    (united,) = frames._combined(rows)
    assert isinstance(united, FakeRDD)
    assert united.collect() == ["a", "b"]
    other = ArrowInput(FakeRDD([[1]]), Reader(None), lambda: TEXT)
    assert list(frames._combined([first, other, rows[0]])) == [first, other, rows[0]]


def test_functions_of_partitions_are_not_united(lines: DStream[Any]) -> None:
    node = initialized(lines.mapPartitionsWithIndex(lambda index, records: [index]))
    inputs = [node.get_or_compute(time_ms) for time_ms in (INTERVAL_MS, 3 * INTERVAL_MS)]
    # Spark would be needed to see the combined inputs in a DataFrame.
    assert list(ToDataFrameDStream(node, None)._combined(inputs)) == inputs


def test_batches_of_a_source_that_had_no_records_are_read_from_nothing(context: FakeContext) -> None:
    # After a recovery; a window asks for the batches before it.
    columns = ArrowInput(FakeRDD([[1]]), Reader(), lambda: TEXT)
    nothing = dict.fromkeys(("open", "start", "stop", "clean_up", "position", "restore"), lambda *_arguments: None)
    source = SimpleNamespace(
        compute=lambda _time_ms: SourceBatch(FakeRDD([["a"]]), arrow=columns),
        compute_again=lambda _time_ms: None,
        **nothing,
    )
    node = PulledInputDStream(context.graph, lambda: source)
    node.recover_from({"time_ms": INTERVAL_MS, "source": None})
    window = WindowedDStream(node, 4 * INTERVAL_MS, INTERVAL_MS)
    window.initialize(0)
    assert node.batch_inputs(INTERVAL_MS) == ()
    # The time after it is skipped.
    assert node.batch_inputs(3 * INTERVAL_MS) == (columns,)
    assert node.batch_inputs(2 * INTERVAL_MS) == ()
    assert window.batch_inputs(4 * INTERVAL_MS) == (columns, columns)
    assert schema_of(ToDataFrameDStream(node, None), *window.batch_inputs(2 * INTERVAL_MS)) is None
    assert schema_of(ToDataFrameDStream(node, None), *window.batch_inputs(4 * INTERVAL_MS)) == "struct<value:string>"


# -- schemas --


def test_records_that_are_python_objects_need_a_schema(lines: DStream[Any]) -> None:
    words = lines.map(str)
    for use in (words.toDF, lambda: words.foreachDataFrame(print)):
        with pytest.raises(
            ConfigurationError, match=r"map at test_frame_nodes\.py:\d+ are Python objects, so toDF needs"
        ):
            use()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (17, "toDF takes a schema such as 'word string, count bigint', or a StructType, not 17 (int)"),
        (str, "not <class 'str'> (type)"),
        (types.StructType(), "the schema has no columns"),
        (types.StructType().add("a", "integer").add("a", "string"), "two columns of the schema are named 'a'"),
        (types.StructType().add("a", types.CalendarIntervalType()), "the column 'a' is of type interval"),
        (types.ArrayType(types.YearMonthIntervalType()), "the column 'value' is of type array<interval"),
    ],
    ids=["number", "class", "no columns", "repeated name", "interval", "nested interval"],
)
def test_a_schema_that_cannot_be_read_is_refused(lines: DStream[Any], schema: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        lines.toDF(schema)
    assert message in str(error.value)


@pytest.mark.parametrize(("version", "words"), [("3.0.1", "pandas 3.0.1 is installed"), ("2.1.4", "pandas 2.1.4 is")])
def test_a_pandas_that_pyspark_does_not_support_is_refused(
    lines: DStream[Any], monkeypatch: pytest.MonkeyPatch, version: str, words: str
) -> None:
    monkeypatch.setattr(metadata, "version", lambda _name: version)
    with pytest.raises(ConfigurationError) as error:
        lines.toDF()
    assert "pandas >= 2.2, < 3" in str(error.value)
    assert words in str(error.value)
    assert str(error.value).endswith(": pip install penstock-dataframes")


def test_pandas_must_be_installed(lines: DStream[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    saved = ToDataFrameDStream(node_of(lines), None)
    monkeypatch.setattr(metadata, "version", missing)
    # A recovered program does not call toDF.
    uses: list[Callable[[], object]] = [lambda: lines.foreachDataFrame(print), saved.restored]
    for use in uses:
        with pytest.raises(ConfigurationError, match=r"is not installed: pip install penstock-dataframes"):
            use()


def schema_of(node: ToDataFrameDStream, *inputs: Any) -> Any:
    # Spark would be needed to see the schema in a DataFrame.
    schema = node._schema(inputs)
    return None if schema is None else schema.struct.simpleString()


def columns(schema: pa.Schema | None) -> ArrowInput:
    return ArrowInput(None, Reader(), lambda: schema)


def test_the_schema_is_that_of_the_first_columns(lines: DStream[Any]) -> None:
    node = ToDataFrameDStream(node_of(lines), None)
    assert schema_of(node) is None
    assert schema_of(node, columns(None)) is None
    assert (
        schema_of(node, columns(None), columns(TEXT), columns(pa.schema([("a", pa.int8())]))) == "struct<value:string>"
    )
    assert schema_of(node, columns(pa.schema([("a", pa.int8())]))) == "struct<value:string>"
    node.restored()
    assert schema_of(node, columns(pa.schema([("a", pa.int8())]))) == "struct<a:tinyint>"


def test_lines_of_text_have_a_schema_before_the_first_record(context: FakeContext, lines: DStream[Any]) -> None:
    text: DStream[Any] = DStream(ReceiverInputDStream(context.graph, object(), TEXT), context)  # type: ignore[arg-type]
    for stream in (text, text.cache(), text.window(4 * INTERVAL_MS / 1000), text.union(text)):
        assert schema_of(ToDataFrameDStream(node_of(stream), None)) == "struct<value:string>"
    for stream in (lines, text.union(lines), lines.union(text)):
        assert schema_of(ToDataFrameDStream(node_of(stream), None)) is None


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            columns(TEXT.with_metadata({"penstock.form": "pickle"})),
            "are of several types, or of one that Arrow lacks, so toDF needs",
        ),
        (FakeRDD([]), "are Python objects, so toDF needs"),
        (columns(pa.schema([("a", pa.month_day_nano_interval())])), "no type for the column 'a'"),
    ],
    ids=["pickled", "rows", "interval"],
)
def test_records_without_a_schema_fail_the_batch(lines: DStream[Any], records: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        schema_of(ToDataFrameDStream(node_of(lines), None), records)


# -- DataFrames of a batch --


class Frame:
    """Stands for a DataFrame."""


class Frames(DataFrameDStream):
    """Frames that are made when they are needed; ``None`` in the second batch."""

    made = 0

    def make_frame(self, time_ms: int) -> BatchFrame | None:
        def make() -> Any:
            self.made += 1
            return None if time_ms == INTERVAL_MS else Frame()

        return None if time_ms == 2 * INTERVAL_MS else Lazy(make)


@pytest.fixture
def frames(lines: DStream[Any]) -> Frames:
    node = Frames((node_of(lines),))
    node.initialize(0)
    node.remember(0)
    return node


def test_a_frame_is_made_once_and_when_it_is_needed(frames: Frames) -> None:
    frame = frames.frame(3 * INTERVAL_MS)
    assert frame is frames.frame(3 * INTERVAL_MS)
    assert frames.made == 0
    assert frame is not None
    assert frame.get() is frame.get()
    assert frames.made == 1


def test_a_frame_that_could_not_be_made_is_tried_again() -> None:
    results: list[Any] = [RuntimeError("not now"), Frame()]

    def make() -> Any:
        if isinstance(result := results.pop(0), Exception):
            raise result
        return result

    frame = Lazy(make)
    with pytest.raises(RuntimeError, match="not now"):
        frame.get()
    assert isinstance(frame.get(), Frame)


def test_a_time_without_a_batch_has_no_frame(frames: Frames) -> None:
    assert frames.frame(2 * INTERVAL_MS) is None
    assert frames.frame(0) is None
    assert frames.frame(INTERVAL_MS + 1) is None


def test_old_frames_are_forgotten(frames: Frames) -> None:
    frames.frame(INTERVAL_MS)
    frames.frame(3 * INTERVAL_MS)
    frames.clear_metadata(3 * INTERVAL_MS, unpersist=True)
    # No public name for a leak: DataFrames of old batches.
    assert list(frames._frames) == [3 * INTERVAL_MS]
    assert frames.program_state()["_frames"] == {}


@pytest.fixture
def _frames_are_dataframes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.sql.DataFrame", Frame)


@pytest.mark.usefixtures("_frames_are_dataframes")
def test_a_function_gets_the_frame_and_returns_another(frames: Frames) -> None:
    calls: list[Any] = []

    def function(*arguments: Any) -> Any:
        calls.append(arguments)
        return arguments[0]

    derived = TransformedDataFrameDStream((frames, frames), function)
    derived.initialize(0)
    assert derived.frame(2 * INTERVAL_MS) is None
    unknown, declared = derived.frame(INTERVAL_MS), derived.frame(3 * INTERVAL_MS)
    assert unknown is not None
    assert unknown.get() is None
    assert calls == []
    assert declared is not None
    assert isinstance(declared.get(), Frame)
    assert len(calls) == 1


@pytest.mark.usefixtures("_frames_are_dataframes")
def test_a_function_that_returns_no_frame_fails_the_batch(frames: Frames) -> None:
    derived = TransformedDataFrameDStream((frames,), lambda _frame: 17)
    derived.initialize(0)
    frame = derived.frame(3 * INTERVAL_MS)
    assert frame is not None
    with pytest.raises(TypeError, match=r"test_frame_nodes\.py:\d+: the function returned int, not a DataFrame"):
        frame.get()


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
