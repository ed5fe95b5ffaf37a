"""DataFrame streams without Spark: what a batch is read from, and the schema of its records."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types
from tests.helpers.engine_parts import PulledInputDStream, ReceiverInputDStream, WindowedDStream
from tests.helpers.fake_blocks import TEXT, Reader, initialized
from tests.helpers.fake_graph import INTERVAL_MS, FakeContext, FakeRDD

from penstock import ArrowInput, ConfigurationError, DStream, SchemaError, SourceBatch
from penstock.spi import BlocksInput, node_of
from penstock_dataframes.frame_nodes import (
    ToDataFrameDStream,
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
            ConfigurationError, match=r"map at test_frame_sources\.py:\d+ are Python objects, so toDF needs"
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
