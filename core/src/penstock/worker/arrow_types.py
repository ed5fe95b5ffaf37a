"""Arrow types as Spark reads them, and the conversion of columns from other types.

Spark knows fewer types than Arrow: no unsigned integers, no dictionaries, no units of time but microseconds. Called by
tasks and by the driver; imports neither Spark nor pandas.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.errors import SchemaError, shortened

#: Time zone of instants in Arrow columns for Spark, which reads microseconds since the epoch.
UTC = "UTC"

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
    """The schema in which Spark reads columns of a schema; every column may be null.

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
    """The Arrow type in which Spark reads values of a type; ``None`` when it has none."""
    if any(is_kind(data_type) for is_kind in _SAME):
        return data_type
    for is_kind, readable in _OTHERS:
        if is_kind(data_type):
            return readable
    if kinds.is_timestamp(data_type):
        return pa.timestamp("us", UTC if data_type.tz else None)
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
    if _is_list(data_type):
        element = spark_type(data_type.value_type)
        return None if element is None else pa.list_(pa.field("element", element))
    return None


def _is_list(data_type: pa.DataType) -> bool:
    """Whether values are lists. Not list views: Arrow casts them to lists of other values."""
    return bool(kinds.is_list(data_type) or kinds.is_large_list(data_type) or kinds.is_fixed_size_list(data_type))


def as_value(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """A record batch whose only column has each record as its value: a struct where there are several columns."""
    if batch.num_columns == 1:
        return batch.rename_columns([name])
    return pa.RecordBatch.from_arrays([batch.to_struct_array()], names=[name])


def conform(batch: pa.RecordBatch, schema: pa.Schema, *, is_declared: bool) -> pa.RecordBatch:
    """Convert a record batch to a schema of types that Spark reads.

    Columns are matched by name. With a declared schema, a column that the batch lacks is null, one that the schema
    lacks is left out, and values are cast unless one would change; fractions of a microsecond are cut off.

    Args:
        batch: columns of any types.
        schema: the schema of the result.
        is_declared: whether the program declared the schema; otherwise it is the schema of an earlier batch, which this
            batch must have too.

    Raises:
        SchemaError: the batch does not fit the schema.
    """
    if not batch.schema.equals(schema):
        if not is_declared:
            _require_same(batch.schema, schema)
        arrays = [_column(batch, field) for field in schema]
        if set(batch.schema.names).isdisjoint(schema.names):
            raise SchemaError(
                f"a block has none of the columns of the declared schema ({describe_schema(schema)}): "
                f"it has ({describe_schema(batch.schema)})"
            )
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for field, column in zip(schema, batch.columns, strict=True):
        require_values(column, field, field.name)
    return batch


def _require_same(actual: pa.Schema, schema: pa.Schema) -> None:
    if actual.names != schema.names or not all(map(_fits, actual.types, schema.types)):
        raise SchemaError(
            f"the schema of a stream's records has changed: it was ({describe_schema(schema)}), and there is a block "
            f"with ({describe_schema(actual)}). Declare a schema to which all of them are converted: "
            "toDF('name type, ...')"
        )


def _fits(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark reads a type as another one; a column of nulls alone, which has Arrow's type null, as any."""
    return bool(kinds.is_null(actual) or spark_type(actual) == wanted)


def describe_schema(schema: pa.Schema) -> str:
    """Names and types, for messages."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    count = batch.schema.names.count(field.name)
    if count == 1:
        return _cast(batch.column(batch.schema.names.index(field.name)), field)
    if count:
        raise SchemaError(f"{count} columns of a block are named {field.name!r}: ({describe_schema(batch.schema)})")
    if not field.nullable:
        raise SchemaError(
            f"a block has no column {field.name!r}, which must not be null: it has ({describe_schema(batch.schema)})"
        )
    return pa.nulls(batch.num_rows, field.type)


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    """The array in the field's type.

    Raises:
        SchemaError: a value would change, or Arrow knows no such conversion.
    """
    if array.type == field.type:
        return array
    if reason := _refusal(array.type, field.type):
        raise SchemaError(
            f"the column {field.name!r} of a block, {array.type}, cannot be converted to {field.type}: {reason}"
        )
    try:
        return pc.cast(_plain(array), options=pc.CastOptions(target_type=field.type, allow_time_truncate=True))
    except pa.ArrowException as error:
        # It may have the value.
        reason = shortened(" ".join(str(error).split()))
        raise SchemaError(
            f"the column {field.name!r} of a block, {array.type}, cannot be converted to {field.type}: {reason}"
        ) from None


def _refusal(actual: pa.DataType, wanted: pa.DataType) -> str:
    """Why a conversion that Arrow offers is refused; empty if it is not."""
    if isinstance(actual, pa.BaseExtensionType):
        return _refusal(actual.storage_type, wanted)
    if kinds.is_dictionary(actual) or kinds.is_run_end_encoded(actual):
        return _refusal(actual.value_type, wanted)
    if kinds.is_list_view(actual) or kinds.is_large_list_view(actual):
        return "Arrow converts list views to other values: convert the column in the receiver"
    if _is_time(actual) and _is_time(wanted) and _is_instant(actual) != _is_instant(wanted):
        # Arrow would take local times for those of UTC.
        return (
            "it depends on a time zone. Declare timestamp for instants, timestamp_ntz or date for local times, and "
            "cast the column with selectExpr, which uses the session's time zone"
        )
    inner: list[tuple[pa.DataType, pa.DataType]] = []
    if kinds.is_struct(actual) and kinds.is_struct(wanted):
        types = {field.name: field.type for field in actual}
        inner = [(types[field.name], field.type) for field in wanted if field.name in types]
    elif kinds.is_map(actual) and kinds.is_map(wanted):
        inner = [(actual.key_type, wanted.key_type), (actual.item_type, wanted.item_type)]
    elif _is_list(actual) and _is_list(wanted):
        inner = [(actual.value_type, wanted.value_type)]
    return next(filter(None, itertools.starmap(_refusal, inner)), "")


def _is_time(data_type: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(data_type) or kinds.is_date(data_type))


def _is_instant(data_type: pa.DataType) -> bool:
    return kinds.is_timestamp(data_type) and data_type.tz is not None


def _plain(array: pa.Array) -> pa.Array:
    while True:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif kinds.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif kinds.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def require_values(array: pa.Array, field: pa.Field, path: str) -> None:
    """Check that there are no nulls where a field allows none, at any depth: Spark would not notice them.

    Raises:
        SchemaError: there is one.
    """
    if not field.nullable and array.null_count:
        raise SchemaError(f"{array.null_count} values of the column {path!r} are null, and the schema says NOT NULL")
    data_type = field.type
    if kinds.is_struct(data_type):
        for inner, child in zip(data_type, array.flatten(), strict=True):
            # A field of a struct that is null is null, too.
            valid = child.filter(array.is_valid()) if array.null_count else child
            require_values(valid, inner, f"{path}.{inner.name}")
    elif kinds.is_map(data_type):
        entries = array.filter(array.is_valid()) if array.null_count else array
        require_values(entries.items, data_type.item_field, f"{path}.value")
    elif kinds.is_list(data_type):
        require_values(array.flatten(), data_type.value_field, f"{path}.element")
