"""The Arrow types in which Spark reads columns."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock import SchemaError
from penstock_dataframes.conform import conform
from penstock_dataframes.spark_types import require_same, spark_schema, spark_type

SAME = [
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.decimal128(38, 10),
    pa.null(),
]
CONVERTED = [
    (pa.uint8(), pa.int16(), 255),
    (pa.uint16(), pa.int32(), 65535),
    (pa.uint32(), pa.int64(), 2**32 - 1),
    (pa.uint64(), pa.decimal128(20, 0), 2**64 - 1),
    (pa.float16(), pa.float32(), 1.5),
    (pa.large_string(), pa.string(), "text"),
    (pa.string_view(), pa.string(), "text"),
    (pa.large_binary(), pa.binary(), b"\0\xff"),
    (pa.binary(3), pa.binary(), b"abc"),
    (pa.date64(), pa.date32(), date(2024, 2, 29)),
    (pa.time32("s"), pa.time64("ns"), time(1, 2, 3)),
    (pa.duration("s"), pa.duration("us"), timedelta(days=1)),
    (pa.timestamp("s", "Asia/Tokyo"), pa.timestamp("us", "UTC"), datetime(2024, 1, 1, tzinfo=UTC)),
    (pa.timestamp("ms"), pa.timestamp("us"), datetime(2024, 1, 1, 12, 0, 0, 1000)),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), "text"),
    (pa.list_(pa.uint8()), pa.list_(pa.field("element", pa.int16())), [1, None]),
    (pa.large_list(pa.large_string()), pa.list_(pa.field("element", pa.string())), ["a"]),
    (pa.list_(pa.int32(), 2), pa.list_(pa.field("element", pa.int32())), [1, 2]),
    (
        pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.float32()))]),
        pa.struct([("a", pa.int16()), ("b", pa.list_(pa.field("element", pa.float32())))]),
        {"a": 1, "b": [2.0]},
    ),
    (
        pa.map_(pa.large_string(), pa.int32()),
        pa.map_(pa.field("key", pa.string(), nullable=False), pa.int32()),
        [("k", 1)],
    ),
]
UNKNOWN = [
    pa.month_day_nano_interval(),
    pa.decimal256(60, 2),
    pa.decimal128(5, -2),
    pa.struct([]),
    pa.list_(pa.struct([])),
    pa.list_view(pa.int8()),
    pa.struct([("a", pa.large_list_view(pa.string()))]),
]


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def conformed(columns: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns, read with a schema that was inferred from an earlier batch."""
    require_same(columns.schema, schema)
    return conform(columns, schema)


@pytest.mark.parametrize("data_type", SAME, ids=str)
def test_a_type_of_spark_stays(data_type: pa.DataType) -> None:
    assert spark_type(data_type) == data_type


@pytest.mark.parametrize(("data_type", "expected", "value"), CONVERTED, ids=[str(case[0]) for case in CONVERTED])
def test_another_type_is_converted_without_a_change_of_values(
    data_type: pa.DataType, expected: pa.DataType, value: Any
) -> None:
    arrow_batch = pa.RecordBatch.from_arrays([pa.array([value, None], data_type)], names=["column"])
    schema = spark_schema(arrow_batch.schema)
    assert schema.types == [expected]
    result = conformed(arrow_batch, schema)
    assert result.schema == schema
    assert result.column(0).to_pylist() == [value, None]


@pytest.mark.parametrize("data_type", UNKNOWN, ids=str)
def test_a_type_that_spark_lacks_is_named_with_its_column(data_type: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="no type for the column 'odd'"):
        spark_schema(pa.schema([("odd", data_type)]))


def test_an_extension_type_is_read_as_its_storage() -> None:
    arrow_batch = pa.RecordBatch.from_arrays(
        [pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16)))], ["id"]
    )
    assert conformed(arrow_batch, spark_schema(arrow_batch.schema)).column(0).to_pylist() == [b"x" * 16]


def test_run_ends_are_decoded() -> None:
    import pyarrow.compute as pc

    arrow_batch = pa.RecordBatch.from_arrays([pc.run_end_encode(pa.array(["a", "a", "b"]))], names=["column"])
    result = conformed(arrow_batch, spark_schema(arrow_batch.schema))
    assert result.column(0).to_pylist() == ["a", "a", "b"]


def test_parts_of_a_microsecond_are_cut_off() -> None:
    arrow_batch = batch(at=pa.array([1_001], pa.timestamp("ns")))
    assert conformed(arrow_batch, spark_schema(arrow_batch.schema)).column(0).cast(pa.int64()).to_pylist() == [1]


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(SchemaError, match="two columns are named 'a'"):
        spark_schema(pa.schema([("a", pa.int64()), ("a", pa.string())]))


@pytest.mark.parametrize(
    "other", [batch(a=[1]), batch(b=["x"], a=[1]), batch(a=[1.5], b=["x"]), batch(a=[1], b=["x"], c=[1])]
)
def test_a_schema_that_changes_is_an_error_that_names_both(other: pa.RecordBatch) -> None:
    schema = spark_schema(batch(a=[1], b=["x"]).schema)
    with pytest.raises(SchemaError) as error:
        conformed(other, schema)
    assert "it was (a int64, b string)" in str(error.value)
    assert f"({', '.join(f'{field.name} {field.type}' for field in other.schema)})" in str(error.value)
    assert "toDF('name type, ...')" in str(error.value)


def test_a_column_of_nulls_fits_the_schema_that_was_found() -> None:
    schema = spark_schema(batch(a=[1], b=["x"]).schema)
    assert conformed(batch(a=[None], b=["x"]), schema).to_pylist() == [{"a": None, "b": "x"}]
    # A column that began with nulls only has Spark's type void, which holds no number.
    with pytest.raises(SchemaError, match=r"it was \(a null\), and there is a block with \(a int64\)"):
        conformed(batch(a=[1]), spark_schema(batch(a=[None]).schema))
