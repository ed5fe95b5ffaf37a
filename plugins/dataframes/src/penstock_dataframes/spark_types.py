"""Maps Arrow types to the Arrow types that Spark reads.

Spark has fewer types than Arrow: no unsigned integers, no dictionaries, and only microseconds as a unit of time. Tasks
and the driver call these functions, which import neither Spark nor pandas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from penstock import SchemaError
from penstock_dataframes.conform import describe_schema

# Spark's largest decimal precision.
_MAX_PRECISION = 38
_SAME = (
    kinds.is_boolean,
    kinds.is_int8,
    kinds.is_int16,
    kinds.is_int32,
    kinds.is_int64,
    kinds.is_float32,
    kinds.is_float64,
    kinds.is_null,
)
_OTHERS: tuple[tuple[Callable[[Any], bool], pa.DataType], ...] = (
    (kinds.is_uint8, pa.int16()),
    (kinds.is_uint16, pa.int32()),
    (kinds.is_uint32, pa.int64()),
    (kinds.is_uint64, pa.decimal128(20, 0)),
    (kinds.is_float16, pa.float32()),
    (kinds.is_string, pa.string()),
    (kinds.is_large_string, pa.string()),
    (kinds.is_string_view, pa.string()),
    (kinds.is_binary, pa.binary()),
    (kinds.is_large_binary, pa.binary()),
    (kinds.is_binary_view, pa.binary()),
    (kinds.is_fixed_size_binary, pa.binary()),
    (kinds.is_date, pa.date32()),
    (kinds.is_time, pa.time64("ns")),
    (kinds.is_duration, pa.duration("us")),
)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that Spark reads instead of the given one; every column may be null.

    Raises:
        SchemaError: Spark has no type for a column, or two columns have the same name.
    """
    repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if repeated:
        raise SchemaError(f"two columns are named {repeated[0]!r}: a DataFrame needs distinct names")
    fields = []
    for field in schema:
        data_type = spark_type(field.type)
        if data_type is None:
            raise SchemaError(
                f"Spark has no type for the column {field.name!r}, {field.type}: convert it in the receiver"
            )
        fields.append(pa.field(field.name, data_type))
    return pa.schema(fields)


def spark_type(data_type: pa.DataType) -> pa.DataType | None:
    """The Arrow type that Spark reads instead of the given one; ``None`` if there is none."""
    if any(is_kind(data_type) for is_kind in _SAME):
        return data_type
    for is_kind, converted in _OTHERS:
        if is_kind(data_type):
            return converted
    if kinds.is_timestamp(data_type):
        return pa.timestamp("us", "UTC" if data_type.tz else None)
    if kinds.is_decimal(data_type):
        fits = data_type.precision <= _MAX_PRECISION and 0 <= data_type.scale <= data_type.precision
        return pa.decimal128(data_type.precision, data_type.scale) if fits else None
    if isinstance(data_type, pa.BaseExtensionType):
        return spark_type(data_type.storage_type)
    if kinds.is_dictionary(data_type) or kinds.is_run_end_encoded(data_type):
        return spark_type(data_type.value_type)
    return _nested(data_type)


def _nested(data_type: pa.DataType) -> pa.DataType | None:
    if kinds.is_struct(data_type):
        fields = [(field.name, spark_type(field.type)) for field in data_type]
        if not fields or any(inner is None for _name, inner in fields):
            return None
        return pa.struct([pa.field(name, inner) for name, inner in fields])
    if kinds.is_map(data_type):
        key, item = spark_type(data_type.key_type), spark_type(data_type.item_type)
        return None if key is None or item is None else pa.map_(pa.field("key", key, nullable=False), item)
    # List views are left out, because Arrow casts them to lists of wrong values.
    if kinds.is_list(data_type) or kinds.is_large_list(data_type) or kinds.is_fixed_size_list(data_type):
        element = spark_type(data_type.value_type)
        return None if element is None else pa.list_(pa.field("element", element))
    return None


def as_value(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """A record batch with a single column of whole records: structs if there are several columns."""
    if batch.num_columns == 1:
        return batch.rename_columns([name])
    return pa.RecordBatch.from_arrays([batch.to_struct_array()], names=[name])


def require_same(stored: pa.Schema, schema: pa.Schema) -> None:
    """Check that Spark can read stored columns with the schema inferred from an earlier batch.

    Raises:
        SchemaError: the schema has changed.
    """
    if stored.equals(schema):
        return
    if stored.names != schema.names or not all(map(_fits, stored.types, schema.types)):
        raise SchemaError(
            f"the schema of a stream's records has changed: it was ({describe_schema(schema)}), and there is a block "
            f"with ({describe_schema(stored)}). Declare a schema to which all of them are converted: "
            "toDF('name type, ...')"
        )


def _fits(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark can read a type as another one. It reads Arrow's type null, a column of nulls only, as any type."""
    return bool(kinds.is_null(stored) or spark_type(stored) == wanted)
