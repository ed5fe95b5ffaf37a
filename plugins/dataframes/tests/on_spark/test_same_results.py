"""Functions of rows and DataFrames see the same records, whatever their types."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from operator import add
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings, strategies as st
from pyspark.sql import Row
from tests.helpers.frame_programs import Run

from penstock import DataFrameStream, DStream, StreamingContext

pytestmark = pytest.mark.spark

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
NAIVE = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1))


def or_nan(floats: st.SearchStrategy[float]) -> st.SearchStrategy[float]:
    # Hypothesis draws NaN alone only once.
    return st.builds(lambda number, value: value if number else math.nan, st.integers(0, 3), floats)


TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "tinyint": (pa.int8(), st.integers(-128, 127)),
    "smallint": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "integer": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "u8": (pa.uint8(), st.integers(0, 255)),
    "u16": (pa.uint16(), st.integers(0, 2**16 - 1)),
    "u32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "u64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float": (pa.float32(), or_nan(st.floats(width=32))),
    "double": (pa.float64(), or_nan(st.floats())),
    "text": (pa.string(), TEXT),
    "long_text": (pa.large_string(), TEXT),
    "word": (pa.dictionary(pa.int32(), pa.string()), TEXT),
    "binary": (pa.binary(), st.binary(max_size=4)),
    "large_binary": (pa.large_binary(), st.binary(max_size=4)),
    "fixed_binary": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "day": (pa.date32(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "instant": (pa.timestamp("us", "Asia/Tokyo"), NAIVE.map(lambda time: time.replace(tzinfo=UTC))),
    "local": (pa.timestamp("us"), NAIVE),
    "duration": (pa.duration("us"), st.timedeltas(timedelta(days=-40_000), timedelta(days=40_000))),
    "decimal": (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
    "decimals": (pa.list_(pa.decimal128(6, 2)), st.lists(st.none() | st.decimals(-99, 99, places=2), max_size=3)),
    "numbers": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 9), max_size=3)),
    "struct": (
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
        st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.none() | st.lists(TEXT, max_size=2)}),
    ),
    "structs": (
        pa.list_(pa.struct([("x", pa.int32()), ("at", pa.timestamp("us", "UTC"))])),
        st.lists(
            st.fixed_dictionaries({"x": st.integers(0, 9), "at": NAIVE.map(lambda time: time.replace(tzinfo=UTC))}),
            max_size=2,
        ),
    ),
    "long_list": (pa.large_list(pa.float64()), st.lists(st.none() | st.floats(-9, 9), max_size=3)),
    "day_in_ms": (pa.date64(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "map": (
        pa.map_(pa.string(), pa.float64()),
        st.dictionaries(TEXT, st.none() | st.integers(0, 9), max_size=2).map(lambda found: list(found.items())),
    ),
}


NUM_ROWS, ROWS_PER_BLOCK = 120, 40


def samples(values: st.SearchStrategy[Any]) -> list[Any]:
    """Values of a strategy, the same in each run; repeated where it has few."""
    found: list[Any] = []

    @settings(max_examples=NUM_ROWS, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    @given(values)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return list(itertools.islice(itertools.cycle(found), NUM_ROWS))


def blocks() -> list[pa.Table]:
    """Rows of all types. A fifth of each column is null, in other rows than in the next column."""
    columns = {
        name: pa.array([None if (row + n) % 5 == 0 else value for row, value in enumerate(samples(values))], data_type)
        for n, (name, (data_type, values)) in enumerate(TYPES.items())
    }
    table = pa.table(columns)
    return [table.slice(start, ROWS_PER_BLOCK) for start in range(0, NUM_ROWS, ROWS_PER_BLOCK)]


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
            # Spark's maps come in any order.
            return {key: plain(value[key]) for key in sorted(value)}
        case tuple() if hasattr(value, "asDict"):
            return plain(value.asDict())
        case list():
            if value and all(isinstance(each, tuple) and not hasattr(each, "asDict") for each in value):
                return plain(dict(value))
            return [plain(each) for each in value]
    return value


def same(rows: list[Any], name: str) -> list[str]:
    found = [plain(row[name]) for row in rows]
    # An empty map is an empty list of pairs in Arrow's Python objects.
    return [repr({} if name == "map" and each == [] else each) for each in found]


def reversed_struct(row: Row) -> Row:
    """The same values; those of the struct in a Row of another order."""
    values = row.asDict()
    struct = values["struct"]
    return Row(**{**values, "struct": struct and Row(y=struct["y"], x=struct["x"])})


def test_rows_and_frames_over_the_same_blocks_are_equal(run: Run) -> None:
    from pyspark.sql import functions as F

    rows: list[Any] = []
    frames: dict[str, list[Any]] = {}
    reduced: dict[str, list[Any]] = {}

    def program(_ssc: StreamingContext, stream: DStream[Any]) -> None:
        stream.foreachRDD(lambda rdd: rows.extend(rdd.collect()))
        stream.foreachDataFrame(lambda df: frames.update(blocks=df.collect(), schema=[df.schema]))
        stream.toDF().rows().foreachRDD(lambda rdd: frames.update(rows=rdd.collect()))
        same_rows: DStream[Any] = stream.map(reversed_struct)
        declared = "boolean boolean, text string, binary binary, day date, instant timestamp, local timestamp_ntz"
        nested = "decimal decimal(12, 3), numbers array<int>, struct struct<x int, y array<string>>"
        # Wider types than those of the values.
        schema = f"{nested}, {declared}, tinyint int, u8 bigint, float double"
        ways = {
            "converted": same_rows,
            "cached": stream.map(reversed_struct).cache(),
            "shuffled": same_rows.repartition(1),
            "windowed": stream.map(reversed_struct).window(1),
            "united": same_rows.union(stream.filter(lambda _row: False)),
        }
        for way, records in ways.items():
            collect_in(frames, way, records.toDF(schema))
        # Sums of integers and of decimals, which are exact in any order.
        pairs = stream.map(lambda row: (row.u8 and row.u8 % 4, (1, row.integer or 0, row.decimal or Decimal(0))))
        sums = pairs.reduceByKey(lambda one, other: tuple(map(add, one, other)))
        sums.foreachRDD(lambda rdd: reduced.update(rows=[(key, *each) for key, each in rdd.collect()]))
        sums_of = [F.sum(F.coalesce(name, F.lit(0))) for name in ("integer", "decimal")]
        collect_in(reduced, "frames", stream.toDF().groupBy(F.expr("u8 % 4")).agg(F.count("*"), *sums_of))
        stream.count().foreachRDD(lambda rdd: reduced.update(count=rdd.collect()))
        collect_in(reduced, "count of the frame", stream.toDF().groupBy().count())

    run(program, [[[block] for block in blocks()]], num_batches=1)
    assert run.errors == {}
    assert sorted(map(tuple, reduced["rows"]), key=repr) == sorted(map(tuple, reduced["frames"]), key=repr)
    assert len(reduced["rows"]) == 5
    assert reduced["count"] == [row["count"] for row in reduced["count of the frame"]] == [NUM_ROWS]
    for name, (data_type, _values) in TYPES.items():
        expected = same(rows, name)
        assert len(expected) == NUM_ROWS
        assert len({*expected} - {"None"}) > 1, name
        for way in ("blocks", "rows", "converted", "cached", "windowed", "united"):
            if name in frames[way][0]:
                assert same(frames[way], name) == expected, (way, name)
        if data_type in (pa.float32(), pa.float64()):
            assert "nan" in expected
        if name in frames["shuffled"][0]:
            assert sorted(same(frames["shuffled"], name)) == sorted(expected), name


def collect_in(frames: dict[str, list[Any]], way: str, stream: DataFrameStream) -> None:
    stream.foreachDataFrame(lambda df: frames.update({way: df.collect()}))
