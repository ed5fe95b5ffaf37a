"""Schemas: Spark's types and Arrow's, and what is refused; without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types

from penstock import ConfigurationError, SchemaError
from penstock_dataframes.schemas import from_arrow, parse_schema, to_arrow

PLAIN = (
    types.BooleanType(),
    types.ByteType(),
    types.ShortType(),
    types.IntegerType(),
    types.LongType(),
    types.FloatType(),
    types.DoubleType(),
    types.StringType(),
    types.BinaryType(),
    types.DateType(),
    types.TimestampType(),
    types.TimestampNTZType(),
    types.NullType(),
    types.DecimalType(12, 3),
    types.DayTimeIntervalType(),
)


@pytest.mark.parametrize("inner", PLAIN, ids=lambda inner: inner.simpleString())
def test_type_is_the_same_after_arrow_alone_and_nested(inner: Any) -> None:
    is_null = isinstance(inner, types.NullType)
    schema = (
        types.StructType()
        .add("alone", inner, is_null)
        .add("array", types.ArrayType(inner, is_null))
        .add("map", types.MapType(types.StringType(), inner))
        .add("struct", types.StructType().add("inner", inner, is_null))
    )
    assert from_arrow(to_arrow(schema)) == schema


class Point(types.UserDefinedType):
    """A type of a library."""

    @classmethod
    def sqlType(cls) -> Any:
        return types.DoubleType()


@pytest.mark.parametrize(
    "unreadable",
    [
        Point(),
        types.ArrayType(Point()),
        types.MapType(types.StringType(), Point()),
        types.StructType().add("inner", Point()),
        types.StructType(),
    ],
    ids=["alone", "array", "map", "struct", "struct without fields"],
)
def test_type_that_cannot_be_read_from_arrow_is_refused_with_its_column(unreadable: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"the column 'a' is of type .*: declare another type, and cast it"):
        parse_schema(types.StructType().add("a", unreadable))


def test_text_that_is_no_schema_is_refused_with_the_first_line_of_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = ["\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'sting'.\n== SQL ==\nword sting", ""]

    def fail(_text: str) -> None:
        raise RuntimeError(reasons.pop(0))

    monkeypatch.setattr(types.DataType, "fromDDL", fail)
    for reason in (r"\[PARSE_SYNTAX_ERROR\] Syntax error at or near 'sting'\.", "RuntimeError"):
        with pytest.raises(ConfigurationError, match=f"^toDF: 'word sting' is not a schema: {reason}$"):
            parse_schema("word sting")


def test_arrow_type_that_spark_lacks_is_named() -> None:
    with pytest.raises(SchemaError, match=r"this version of Spark lacks one of the types .*month_day_nano_interval"):
        from_arrow(pa.schema([("a", pa.month_day_nano_interval())]))
