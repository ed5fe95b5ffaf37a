"""Schemas of DataFrames: parses declared schemas, and converts between Spark's and Arrow's. Used on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock import ConfigurationError, SchemaError
from penstock.spi import shown

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def parse_schema(schema: object) -> tuple[StructType, bool]:
    """Parse the schema that a program declares.

    Args:
        schema: a StructType, another type, or either as Spark DDL text.

    Returns:
        The schema, and whether each record is the value of its only column ``value``.

    Raises:
        ConfigurationError: it is not a schema, has no columns, or has a type that cannot be read from Arrow.
    """
    from pyspark.sql.types import DataType, StructField, StructType

    parsed: Any = schema
    if isinstance(schema, str):
        try:
            parsed = DataType.fromDDL(schema)
        except Exception as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise ConfigurationError(f"toDF: {shown(schema)} is not a schema: {reason[0]}") from error
    if not isinstance(parsed, DataType):
        raise ConfigurationError(
            "toDF takes a schema such as 'word string, count bigint', or a StructType, not "
            f"{shown(schema)} ({type(schema).__name__})"
        )
    is_value = not isinstance(parsed, StructType)
    struct: Any = StructType([StructField("value", parsed)]) if is_value else parsed
    if not struct.names:
        raise ConfigurationError("toDF: the schema has no columns")
    repeated = sorted({name for name in struct.names if struct.names.count(name) > 1})
    if repeated:
        raise ConfigurationError(f"toDF: two columns of the schema are named {repeated[0]!r}")
    to_arrow(struct)
    return struct, is_value


def to_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark reads as this schema.

    Raises:
        ConfigurationError: a column has a type that cannot be read from Arrow.
    """
    fields = []
    for field in schema.fields:
        data_type = _arrow_type(field.dataType)
        if data_type is None:
            raise ConfigurationError(
                f"toDF: the column {field.name!r} is of type {field.dataType.simpleString()}, which cannot be read "
                "from Arrow: declare another type, and cast it with selectExpr"
            )
        fields.append(pa.field(field.name, data_type, field.nullable))
    return pa.schema(fields)


def _arrow_type(data_type: DataType) -> pa.DataType | None:
    from pyspark.sql import types

    plain = {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "void": pa.null(),
    }
    if isinstance(data_type, types.UserDefinedType):
        return None
    if isinstance(data_type, types.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, types.DayTimeIntervalType):
        return pa.duration("us")
    if isinstance(data_type, types.ArrayType):
        element = _arrow_type(data_type.elementType)
        return None if element is None else pa.list_(pa.field("element", element, data_type.containsNull))
    if isinstance(data_type, types.MapType):
        key, value = _arrow_type(data_type.keyType), _arrow_type(data_type.valueType)
        if key is None or value is None:
            return None
        return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value, data_type.valueContainsNull))
    if isinstance(data_type, types.StructType):
        inner = [(field, _arrow_type(field.dataType)) for field in data_type.fields]
        if not inner or any(arrow_type is None for _field, arrow_type in inner):
            return None
        return pa.struct([pa.field(field.name, arrow_type, field.nullable) for field, arrow_type in inner])
    if data_type.typeName() == "time":
        return pa.time64("ns")
    return plain.get(data_type.simpleString())


def undeclared(records_of: str, what: str) -> str:
    """Message for a stream whose schema must be declared.

    Args:
        records_of: the stream's call site.
        what: a description of its records.
    """
    return f"the records of {records_of} are {what}, so toDF needs their schema: toDF('name type, ...')"


def from_arrow(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to Spark's; it must contain only types that Spark reads.

    Raises:
        SchemaError: this version of Spark lacks a type.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        return from_arrow_schema(schema, prefer_timestamp_ntz=True)
    except TypeError as error:
        raise SchemaError(f"this version of Spark lacks one of the types {schema.types}: {error}") from error
