"""The conversion of columns to a declared schema."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock import SchemaError
from penstock_dataframes.conform import conform


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_a_declared_schema_takes_columns_by_name_and_widens_them() -> None:
    schema = pa.schema([("b", pa.string()), ("a", pa.float64()), ("new", pa.date32())])
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1], pa.int32()), "b": ["x"], "gone": [True]})
    assert conform(batch, schema).to_pylist() == [{"b": "x", "a": 1.0, "new": None}]


def test_a_column_of_nulls_takes_any_declared_type() -> None:
    schema = pa.schema([("a", pa.list_(pa.field("element", pa.string())))])
    assert conform(batch(a=[None, None]), schema).to_pylist() == [{"a": None}] * 2


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
        conform(batch(a=column), pa.schema([("a", data_type)]))


def test_a_long_value_that_would_change_is_shortened() -> None:
    with pytest.raises(SchemaError, match=r"string, cannot be converted to int64: Failed to parse string: '9+\.\.\.$"):
        conform(batch(a=["9" * 5000]), pa.schema([("a", pa.int64())]))


@pytest.mark.parametrize(
    ("data_type", "expected"), [(pa.float32(), 1.2000000476837158), (pa.decimal128(3, 0), Decimal(1))], ids=str
)
def test_floating_point_numbers_are_rounded(data_type: pa.DataType, expected: Any) -> None:
    assert conform(batch(a=[1.2]), pa.schema([("a", data_type)])).to_pylist() == [{"a": expected}]


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
        conform(column, pa.schema([("a", data_type)]))


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
    assert conform(column, pa.schema([("a", data_type)])).column(0).to_pylist() == [expected]


@pytest.mark.parametrize("data_type", [pa.list_view(pa.int8()), pa.large_list_view(pa.int8())], ids=str)
def test_list_views_are_refused_because_arrow_casts_them_to_wrong_values(data_type: pa.DataType) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([[1], [2, 3]], data_type)], names=["a"])
    with pytest.raises(SchemaError, match=r"'a' of a block, .*list_view.*, cannot be converted to list"):
        conform(batch, pa.schema([("a", pa.list_(pa.field("element", pa.int8())))]))


def not_null(data_type: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("a", data_type, nullable=False)])


LIST = pa.list_(pa.field("element", pa.int64(), nullable=False))
STRUCT = pa.struct([pa.field("b", pa.int64(), nullable=False)])
MAP = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
NULLABLE = {
    LIST: pa.list_(pa.field("element", pa.int64())),
    STRUCT: pa.struct([("b", pa.int64())]),
    MAP: pa.map_(pa.string(), pa.int64()),
}


def nullable(data_type: pa.DataType) -> pa.DataType:
    return NULLABLE.get(data_type, data_type)


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
    batch = pa.RecordBatch.from_arrays([pa.array(values, nullable(schema.types[0]))], names=["a"])
    with pytest.raises(SchemaError, match=message):
        conform(batch, schema)


@pytest.mark.parametrize(("value", "data_type"), [([1], LIST), ({"b": 1}, STRUCT), ([("k", 1)], MAP)])
def test_a_null_around_a_value_that_must_not_be_null_is_none(value: Any, data_type: pa.DataType) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([None, value], nullable(data_type))], names=["a"])
    assert conform(batch, pa.schema([("a", data_type)])).column(0).to_pylist() == [None, value]


def test_a_column_that_must_not_be_null_must_be_there() -> None:
    with pytest.raises(SchemaError, match=r"no column 'a', which must not be null: it has \(b int64\)"):
        conform(batch(b=[1]), not_null(pa.int64()))


def test_two_columns_of_the_name_that_is_declared_are_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SchemaError, match="2 columns of a block are named 'a'"):
        conform(batch, pa.schema([("a", pa.int64())]))
