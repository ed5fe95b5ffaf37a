"""Functions of rows and DataFrames see the same records, whatever their types."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.dataframes.conftest import Run

from penstock import DStream, StreamingContext

pytestmark = pytest.mark.spark

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
NAIVE = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1))
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "tinyint": (pa.int8(), st.integers(-128, 127)),
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "u8": (pa.uint8(), st.integers(0, 255)),
    "u64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), TEXT),
    "long_text": (pa.large_string(), TEXT),
    "word": (pa.dictionary(pa.int32(), pa.string()), TEXT),
    "binary": (pa.binary(), st.binary(max_size=4)),
    "day": (pa.date32(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "instant": (pa.timestamp("us", "Asia/Tokyo"), NAIVE.map(lambda time: time.replace(tzinfo=UTC))),
    "local": (pa.timestamp("us"), NAIVE),
    "decimal": (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
    "numbers": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 9), max_size=3)),
    "struct": (
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
        st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.none() | st.lists(TEXT, max_size=2)}),
    ),
    "map": (
        pa.map_(pa.string(), pa.float64()),
        st.dictionaries(TEXT, st.none() | st.integers(0, 9), max_size=2).map(lambda found: list(found.items())),
    ),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Some rows of all types, with nulls."""
    size = draw(st.integers(1, 6))
    columns = {
        name: pa.array(draw(st.lists(st.none() | values, min_size=size, max_size=size)), data_type)
        for name, (data_type, values) in TYPES.items()
    }
    return pa.table(columns)


def plain(value: Any) -> Any:
    """A value without the differences between Arrow's Python objects and Spark's."""
    match value:
        case bytearray():
            return bytes(value)
        case datetime() if value.tzinfo is not None:
            return value.astimezone().replace(tzinfo=None)
        case Decimal() if value == value.to_integral_value():
            return int(value)
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case tuple() if hasattr(value, "asDict"):
            return {name: plain(each) for name, each in value.asDict().items()}
        case list():
            if value and all(isinstance(each, tuple) and not hasattr(each, "asDict") for each in value):
                return {key: plain(each) for key, each in value}
            return [plain(each) for each in value]
    return value


def same(rows: list[Any], name: str) -> list[str]:
    found = [plain(row[name]) for row in rows]
    # An empty map is an empty list of pairs in Arrow's Python objects.
    return [repr(each or None if name == "map" else each) for each in found]


@settings(max_examples=1, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(tables(), min_size=6, max_size=6))
def test_rows_and_frames_over_the_same_blocks_are_equal(run: Run, batch: list[pa.Table]) -> None:
    rows: list[Any] = []
    frames: dict[str, list[Any]] = {}

    def program(_ssc: StreamingContext, stream: DStream[Any]) -> None:
        stream.foreachRDD(lambda rdd: rows.extend(rdd.collect()))
        stream.foreachDataFrame(lambda df: frames.update(blocks=df.collect(), schema=[df.schema]))
        stream.toDF().rows().foreachRDD(lambda rdd: frames.update(rows=rdd.collect()))
        same_rows = stream.map(lambda row: row)
        declared = "boolean boolean, text string, binary binary, day date, instant timestamp, local timestamp_ntz"
        nested = "decimal decimal(12, 3), numbers array<int>, struct struct<x int, y array<string>>"
        by_name = same_rows.map(lambda row: row.asDict()).toDF(f"{declared}, {nested}")
        by_name.foreachDataFrame(lambda df: frames.update(converted=df.collect()))
        shuffled = same_rows.map(lambda row: row.asDict()).repartition(1).toDF(f"{declared}, {nested}")
        shuffled.foreachDataFrame(lambda df: frames.update(shuffled=df.collect()))

    run(program, [[[table] for table in batch]], num_batches=1)
    assert run.errors == {}
    for name in TYPES:
        expected = same(rows, name)
        assert len(expected) == sum(table.num_rows for table in batch)
        for way in ("blocks", "rows", "converted"):
            if name in frames[way][0]:
                assert same(frames[way], name) == expected, (way, name)
        if name in frames["shuffled"][0]:
            assert sorted(same(frames["shuffled"], name)) == sorted(expected), name
