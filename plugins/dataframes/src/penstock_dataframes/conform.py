"""``conform``: converts record batches to a declared schema. Tasks call it; it imports neither Spark nor pandas."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock import SchemaError

# Characters of a reason, which may contain data, in a message.
_LONGEST_REASON = 100


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a record batch to a schema of types that Spark reads.

    Columns are matched by name. A column that the batch lacks is null, a column that the schema lacks is omitted, and
    values are cast unless one would change. Fractions of a microsecond are truncated.

    Raises:
        SchemaError: the batch does not fit the schema.
    """
    if not batch.schema.equals(schema):
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
    if array.type == field.type:
        return array
    if reason := _refusal(array.type, field.type):
        raise SchemaError(
            f"the column {field.name!r} of a block, {array.type}, cannot be converted to {field.type}: {reason}"
        )
    try:
        return pc.cast(_plain(array), options=pc.CastOptions(target_type=field.type, allow_time_truncate=True))
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        if len(reason) > _LONGEST_REASON:
            reason = f"{reason[: _LONGEST_REASON - 3]}..."
        raise SchemaError(
            f"the column {field.name!r} of a block, {array.type}, cannot be converted to {field.type}: {reason}"
        ) from None


def _refusal(stored: pa.DataType, wanted: pa.DataType) -> str:
    """Why a conversion that Arrow offers is refused; empty if it is not."""
    if isinstance(stored, pa.BaseExtensionType):
        return _refusal(stored.storage_type, wanted)
    if kinds.is_dictionary(stored) or kinds.is_run_end_encoded(stored):
        return _refusal(stored.value_type, wanted)
    if kinds.is_list_view(stored) or kinds.is_large_list_view(stored):
        return "Arrow converts list views to other values: convert the column in the receiver"
    if _is_time(stored) and _is_time(wanted) and _is_instant(stored) != _is_instant(wanted):
        # Arrow would take local times for those of UTC.
        return (
            "it depends on a time zone. Declare timestamp for instants, timestamp_ntz or date for local times, and "
            "cast the column with selectExpr, which uses the session's time zone"
        )
    inner: list[tuple[pa.DataType, pa.DataType]] = []
    if kinds.is_struct(stored) and kinds.is_struct(wanted):
        types = {field.name: field.type for field in stored}
        inner = [(types[field.name], field.type) for field in wanted if field.name in types]
    elif kinds.is_map(stored) and kinds.is_map(wanted):
        inner = [(stored.key_type, wanted.key_type), (stored.item_type, wanted.item_type)]
    elif _is_list(stored) and _is_list(wanted):
        inner = [(stored.value_type, wanted.value_type)]
    return next(filter(None, itertools.starmap(_refusal, inner)), "")


def _is_list(data_type: pa.DataType) -> bool:
    """Whether values are lists. Not list views: Arrow casts them to lists of other values."""
    return bool(kinds.is_list(data_type) or kinds.is_large_list(data_type) or kinds.is_fixed_size_list(data_type))


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
        SchemaError: a value is null.
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
