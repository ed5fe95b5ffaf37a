"""Rows as columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from penstock import SchemaError
from penstock_dataframes.arrow_rows import ROWS_PER_BATCH, to_batches

PAIR = pa.schema([("a", pa.int64()), ("b", pa.string())])


class Point:
    def __init__(self, a: int, b: str) -> None:
        self.a = a
        self.b = b


class Other:
    def __init__(self) -> None:
        self.c = 1

    def __repr__(self) -> str:
        return "Other()"


def rows(records: list[Any], schema: pa.Schema, *, are_values: bool = False) -> list[dict[str, Any]]:
    batches = list(to_batches(records, schema, are_values=are_values))
    assert all(batch.schema == schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def column(records: list[Any], data_type: pa.DataType) -> list[Any]:
    return [row["value"] for row in rows(records, pa.schema([("value", data_type)]), are_values=True)]


@pytest.mark.parametrize(
    "record", [(1, "x"), [1, "x"], Row(a=1, b="x"), {"b": "x", "a": 1}, Point(1, "x"), {"a": 1, "b": "x", "c": 0}]
)
def test_a_record_may_have_any_form_of_a_row(record: Any) -> None:
    assert rows([record], PAIR) == [{"a": 1, "b": "x"}]


def test_what_a_dictionary_lacks_is_null() -> None:
    assert rows([{"a": 1}, {}], PAIR) == [{"a": 1, "b": None}, {"a": None, "b": None}]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (Row(b="x", a=1), {"a": 1, "b": "x"}),
        (Row("b", "a")("x", 1), {"a": 1, "b": "x"}),
        (Row(b="x", c=0), {"a": None, "b": "x"}),
        (Row(c=0, b="x", a=1), {"a": 1, "b": "x"}),
        (Row(1, "x"), {"a": 1, "b": "x"}),  # type: ignore[call-overload]
    ],
)
def test_a_row_is_matched_by_name(row: Row, expected: dict[str, Any]) -> None:
    assert rows([row], PAIR) == [expected]


def test_a_row_in_a_column_is_matched_by_name() -> None:
    assert column([Row(b="x", a=1)], pa.struct(list(PAIR))) == [{"a": 1, "b": "x"}]


MAP = pa.map_(pa.string(), pa.int64())
STRUCT = pa.struct([("x", pa.int64())])


@pytest.mark.parametrize(("data_type", "value"), [(MAP, [("x", 1)]), (STRUCT, {"x": 1})], ids=str)
@pytest.mark.parametrize("record", [{"x": 1}, {"value": {"x": 1}}, ({"x": 1},), Row(value={"x": 1})], ids=str)
def test_a_dictionary_may_be_the_value_of_the_only_column(data_type: pa.DataType, value: Any, record: Any) -> None:
    schema = pa.schema([("value", data_type)])
    assert rows([record], schema) == [{"value": value}]


def test_an_empty_dictionary_is_an_empty_map() -> None:
    assert rows([{}], pa.schema([("value", MAP)])) == [{"value": []}]


def test_a_value_is_the_only_column() -> None:
    only = pa.schema([("a", pa.int64())])
    assert rows([1, (2,), {"a": 3}, Row(a=4)], only) == [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}]


def test_many_records_make_several_batches() -> None:
    batches = list(to_batches(iter(range(ROWS_PER_BATCH + 1)), pa.schema([("value", pa.int64())])))
    assert [batch.num_rows for batch in batches] == [ROWS_PER_BATCH, 1]


def test_no_records_make_no_batch() -> None:
    assert list(to_batches([], PAIR)) == []


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (pa.binary(), b"\0"),
        (pa.decimal128(10, 2), Decimal("1.50")),
        (pa.list_(pa.list_(pa.int64())), [[1, None], None, []]),
        (pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))]), {"x": 1, "y": {"z": None}}),
        (pa.timestamp("us"), datetime(2024, 1, 1, 12)),
        (pa.timestamp("us", "UTC"), datetime(2024, 1, 1, 12, tzinfo=UTC)),
    ],
    ids=str,
)
def test_nested_and_other_values_stay_as_they_are(data_type: pa.DataType, value: Any) -> None:
    assert column([value, None], data_type) == [value, None]


@pytest.mark.parametrize("value", [1.0, Decimal("1.0"), 1])
def test_a_number_without_a_fraction_is_an_integer(value: Any) -> None:
    assert column([value, None], pa.int64()) == [1, None]
    assert column([[value, None]], pa.list_(pa.int64())) == [[1, None]]


def test_a_dictionary_is_a_map() -> None:
    data_type = pa.map_(pa.string(), pa.list_(pa.timestamp("us", "UTC")))
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    assert column([{"k": [noon]}, {}], data_type) == [[("k", [noon])], []]


def test_rows_in_a_row_are_structs() -> None:
    data_type = pa.struct([("x", pa.int64()), ("y", pa.string())])
    assert column([Row(x=1, y="a"), (2, "b"), {"x": 3}], data_type) == [
        {"x": 1, "y": "a"},
        {"x": 2, "y": "b"},
        {"x": 3, "y": None},
    ]


@pytest.mark.usefixtures("_in_tokyo")
def test_a_time_without_a_zone_is_local() -> None:
    values = column([datetime(2024, 1, 1, 12)], pa.timestamp("us", "UTC"))
    assert values == [datetime(2024, 1, 1, 3, tzinfo=UTC)]


def test_a_time_of_another_zone_is_the_same_instant() -> None:
    there = datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=9)))
    assert column([there], pa.timestamp("us", "UTC")) == [there]


@pytest.mark.parametrize(
    ("data_type", "value", "message"),
    [
        (pa.int64(), "one", "'value' does not fit int64: 'one'"),
        (pa.int64(), 1.5, "'value' does not fit int64: 1.5: it has a fraction"),
        (pa.int8(), Decimal("1.5"), "'value' does not fit int8: Decimal('1.5'): it has a fraction"),
        (pa.int64(), float("nan"), "'value' does not fit int64: nan"),
        (pa.int64(), float("inf"), "'value' does not fit int64: inf"),
        (pa.int64(), True, "'value' does not fit int64: True"),
        (pa.list_(pa.int32()), [1, 1.5], "'value' does not fit list<item: int32>: [1, 1.5]: it has a fraction"),
        (pa.struct([("x", pa.int32())]), {"x": 1.5}, "{'x': 1.5}: it has a fraction"),
        (pa.map_(pa.string(), pa.int32()), {"x": 1.5}, "{'x': 1.5}: it has a fraction"),
        (pa.int64(), 2**70, "'value' does not fit int64: 1180591620717411303424"),
        (pa.string(), 1, "'value' does not fit string: 1"),
        (pa.decimal128(3, 1), Decimal("1.25"), "'value' does not fit decimal128"),
        (pa.timestamp("us"), datetime(2024, 1, 1, tzinfo=UTC), "it has a time zone"),
        (pa.timestamp("us", "UTC"), 17, "'value' does not fit timestamp"),
        (pa.map_(pa.string(), pa.int64()), 17, "'value' does not fit map"),
        (pa.string(), "\ud800", "'value' does not fit string"),
        (pa.struct([("x", pa.int64()), ("y", pa.int64())]), (1,), "has 1 values, and the schema has 2 columns"),
        (pa.struct([("x", pa.int64())]), {"X": 1}, "a record has none of the columns x: {'X': 1}"),
    ],
)
def test_a_value_that_does_not_fit_is_named(data_type: pa.DataType, value: Any, message: str) -> None:
    with pytest.raises(SchemaError) as error:
        column([None, value], data_type)
    assert message in str(error.value)


def test_a_long_value_is_shortened_in_the_message() -> None:
    with pytest.raises(SchemaError) as error:
        column(["x" * 1000], pa.int64())
    assert len(str(error.value)) < 300


def test_a_null_where_the_schema_allows_none_is_an_error() -> None:
    with pytest.raises(SchemaError, match="1 values of the column 'a' are null"):
        rows([(None,)], pa.schema([pa.field("a", pa.int64(), nullable=False)]))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((1,), "a record has 1 values, and the schema has 2 columns, a, b: (1,)"),
        ((1, "x", 2), "a record has 3 values"),
        ("text", "the schema has 2 columns, a, b, and a record is 'text'"),
        (None, "and a record is None"),
        ({"A": 1, "B": "x"}, "a record has none of the columns a, b: {'A': 1, 'B': 'x'}"),
        (Other(), "a record has none of the columns a, b: Other()"),
        (ValueError("x"), "the schema has 2 columns, a, b, and a record is ValueError('x')"),
        (Row(c=1, d="x"), "a record has none of the columns a, b: Row(c=1, d='x')"),
        (Row("a", "a")(1, 2), "a Row has several values of one name: Row(a=1, a=2)"),
    ],
)
def test_a_record_that_is_no_row_is_named(record: Any, message: str) -> None:
    with pytest.raises(SchemaError) as error:
        rows([record], PAIR)
    assert message in str(error.value)
