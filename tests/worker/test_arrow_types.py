"""Arrow columns as Spark reads them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import SchemaError
from penstock.worker.arrow_types import conform, spark_schema, spark_type

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


@pytest.mark.parametrize("data_type", SAME, ids=str)
def test_a_type_of_spark_stays(data_type: pa.DataType) -> None:
    assert spark_type(data_type) == data_type


@pytest.mark.parametrize(("data_type", "expected", "value"), CONVERTED, ids=[str(case[0]) for case in CONVERTED])
def test_another_type_is_converted_without_a_change_of_values(
    data_type: pa.DataType, expected: pa.DataType, value: Any
) -> None:
    given = pa.RecordBatch.from_arrays([pa.array([value, None], data_type)], names=["column"])
    schema = spark_schema(given.schema)
    assert schema.types == [expected]
    found = conform(given, schema, is_declared=False)
    assert found.schema == schema
    assert found.column(0).to_pylist() == [value, None]


@pytest.mark.parametrize("data_type", UNKNOWN, ids=str)
def test_a_type_that_spark_lacks_is_named_with_its_column(data_type: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="no type for the column 'odd'"):
        spark_schema(pa.schema([("odd", data_type)]))


def test_an_extension_type_is_read_as_its_storage() -> None:
    given = pa.RecordBatch.from_arrays(
        [pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16)))], ["id"]
    )
    assert conform(given, spark_schema(given.schema), is_declared=False).column(0).to_pylist() == [b"x" * 16]


def test_run_ends_are_decoded() -> None:
    import pyarrow.compute as pc

    given = pa.RecordBatch.from_arrays([pc.run_end_encode(pa.array(["a", "a", "b"]))], names=["column"])
    found = conform(given, spark_schema(given.schema), is_declared=False)
    assert found.column(0).to_pylist() == ["a", "a", "b"]


def test_parts_of_a_microsecond_are_cut_off() -> None:
    given = batch(at=pa.array([1_001], pa.timestamp("ns")))
    assert conform(given, spark_schema(given.schema), is_declared=False).column(0).cast(pa.int64()).to_pylist() == [1]


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(SchemaError, match="two columns are named 'a'"):
        spark_schema(pa.schema([("a", pa.int64()), ("a", pa.string())]))


@pytest.mark.parametrize(
    "other", [batch(a=[1]), batch(b=["x"], a=[1]), batch(a=[1.5], b=["x"]), batch(a=[1], b=["x"], c=[1])]
)
def test_a_schema_that_changes_is_an_error_that_names_both(other: pa.RecordBatch) -> None:
    schema = spark_schema(batch(a=[1], b=["x"]).schema)
    with pytest.raises(SchemaError) as error:
        conform(other, schema, is_declared=False)
    assert "it was (a int64, b string)" in str(error.value)
    assert f"({', '.join(f'{field.name} {field.type}' for field in other.schema)})" in str(error.value)
    assert "toDF('name type, ...')" in str(error.value)


def test_a_column_of_nulls_fits_the_schema_that_was_found() -> None:
    schema = spark_schema(batch(a=[1], b=["x"]).schema)
    assert conform(batch(a=[None], b=["x"]), schema, is_declared=False).to_pylist() == [{"a": None, "b": "x"}]
    # A column that began with nulls only has Spark's type void, which holds no number.
    with pytest.raises(SchemaError, match=r"it was \(a null\), and there is a block with \(a int64\)"):
        conform(batch(a=[1]), spark_schema(batch(a=[None]).schema), is_declared=False)


def test_a_declared_schema_takes_columns_by_name_and_widens_them() -> None:
    schema = pa.schema([("b", pa.string()), ("a", pa.float64()), ("new", pa.date32())])
    given = pa.RecordBatch.from_pydict({"a": pa.array([1], pa.int32()), "b": ["x"], "gone": [True]})
    assert conform(given, schema, is_declared=True).to_pylist() == [{"b": "x", "a": 1.0, "new": None}]


def test_a_column_of_nulls_takes_any_declared_type() -> None:
    schema = pa.schema([("a", pa.list_(pa.field("element", pa.string())))])
    assert conform(batch(a=[None, None]), schema, is_declared=True).to_pylist() == [{"a": None}] * 2


@pytest.mark.parametrize(
    ("column", "data_type"),
    [
        ([300], pa.int8()),
        ([1.5], pa.int64()),
        (["one"], pa.int64()),
        ([Decimal("1.25")], pa.decimal128(3, 1)),
        ([[1]], pa.string()),
    ],
)
def test_a_value_that_would_change_is_an_error(column: list[Any], data_type: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"column 'a' of a block, .* cannot be converted to"):
        conform(batch(a=column), pa.schema([("a", data_type)]), is_declared=True)


def test_a_long_value_that_would_change_is_shortened() -> None:
    with pytest.raises(SchemaError, match=r"string, cannot be converted to int64: Failed to parse string: '9+\.\.\.$"):
        conform(batch(a=["9" * 5000]), pa.schema([("a", pa.int64())]), is_declared=True)


@pytest.mark.parametrize(
    ("data_type", "expected"), [(pa.float32(), 1.2000000476837158), (pa.decimal128(3, 0), Decimal(1))], ids=str
)
def test_floating_point_numbers_are_rounded(data_type: pa.DataType, expected: Any) -> None:
    assert conform(batch(a=[1.2]), pa.schema([("a", data_type)]), is_declared=True).to_pylist() == [{"a": expected}]


INSTANT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")


@pytest.mark.parametrize(
    ("given", "data_type"),
    [
        (pa.timestamp("s"), INSTANT),
        (pa.date32(), INSTANT),
        (pa.timestamp("s", "Asia/Tokyo"), LOCAL),
        (pa.timestamp("s", "Asia/Tokyo"), pa.date32()),
        (pa.dictionary(pa.int8(), pa.timestamp("s")), INSTANT),
        (pa.list_(pa.timestamp("s")), pa.list_(pa.field("element", INSTANT))),
        (pa.map_(pa.string(), pa.timestamp("s")), pa.map_(pa.string(), INSTANT)),
        (pa.struct([("a", pa.struct([("b", pa.timestamp("s"))]))]), pa.struct([("a", pa.struct([("b", INSTANT)]))])),
    ],
    ids=str,
)
def test_local_times_and_instants_are_not_converted_to_each_other(given: pa.DataType, data_type: pa.DataType) -> None:
    # Which local time an instant is depends on the session's time zone, which only Spark knows.
    column = pa.RecordBatch.from_arrays([pa.nulls(1, given)], names=["a"])
    with pytest.raises(SchemaError, match=r"column 'a' of a block, .* cannot be converted to .*time zone.* selectExpr"):
        conform(column, pa.schema([("a", data_type)]), is_declared=True)


@pytest.mark.parametrize(
    ("given", "data_type", "value", "expected"),
    [
        (pa.timestamp("s", "Asia/Tokyo"), INSTANT, datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.timestamp("s"), LOCAL, datetime(2024, 1, 1, 12), datetime(2024, 1, 1, 12)),
        (pa.timestamp("s"), pa.date32(), datetime(2024, 1, 1, 12), date(2024, 1, 1)),
        (pa.date32(), LOCAL, date(2024, 1, 1), datetime(2024, 1, 1)),
    ],
    ids=str,
)
def test_times_of_one_kind_are_converted(given: pa.DataType, data_type: pa.DataType, value: Any, expected: Any) -> None:
    column = pa.RecordBatch.from_arrays([pa.array([value], given)], names=["a"])
    assert conform(column, pa.schema([("a", data_type)]), is_declared=True).column(0).to_pylist() == [expected]


@pytest.mark.parametrize("data_type", [pa.list_view(pa.int8()), pa.large_list_view(pa.int8())], ids=str)
def test_list_views_are_refused_because_arrow_casts_them_to_wrong_values(data_type: pa.DataType) -> None:
    given = pa.RecordBatch.from_arrays([pa.array([[1], [2, 3]], data_type)], names=["a"])
    with pytest.raises(SchemaError, match=r"'a' of a block, .*list_view.*, cannot be converted to list"):
        conform(given, pa.schema([("a", pa.list_(pa.field("element", pa.int8())))]), is_declared=True)


def not_null(data_type: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("a", data_type, nullable=False)])


LIST = pa.list_(pa.field("element", pa.int64(), nullable=False))
STRUCT = pa.struct([pa.field("b", pa.int64(), nullable=False)])
MAP = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))


@pytest.mark.parametrize(
    ("values", "schema", "message"),
    [
        ([1, None], not_null(pa.int64()), "1 values of the column 'a' are null"),
        ([[1], [None]], pa.schema([("a", LIST)]), "1 values of the column 'a.element' are null"),
        ([{"b": 1}, {"b": None}], pa.schema([("a", STRUCT)]), "field 'b' of type int64 has nulls"),  # said by Arrow
        ([[("k", None)]], pa.schema([("a", MAP)]), "1 values of the column 'a.value' are null"),
    ],
)
def test_a_null_where_the_schema_allows_none_is_an_error(values: list[Any], schema: pa.Schema, message: str) -> None:
    given = pa.RecordBatch.from_arrays([pa.array(values, spark_type(schema.types[0]))], names=["a"])
    with pytest.raises(SchemaError, match=message):
        conform(given, schema, is_declared=True)


@pytest.mark.parametrize(("value", "data_type"), [([1], LIST), ({"b": 1}, STRUCT), ([("k", 1)], MAP)])
def test_a_null_around_a_value_that_must_not_be_null_is_none(value: Any, data_type: pa.DataType) -> None:
    given = pa.RecordBatch.from_arrays([pa.array([None, value], spark_type(data_type))], names=["a"])
    assert conform(given, pa.schema([("a", data_type)]), is_declared=True).column(0).to_pylist() == [None, value]


def test_a_column_that_must_not_be_null_must_be_there() -> None:
    with pytest.raises(SchemaError, match=r"no column 'a', which must not be null: it has \(b int64\)"):
        conform(batch(b=[1]), not_null(pa.int64()), is_declared=True)


def test_two_columns_of_the_name_that_is_declared_are_refused() -> None:
    given = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SchemaError, match="2 columns of a block are named 'a'"):
        conform(given, pa.schema([("a", pa.int64())]), is_declared=True)
