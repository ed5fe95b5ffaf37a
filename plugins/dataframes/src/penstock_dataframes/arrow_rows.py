"""Converts Python records to Arrow columns of a schema, several thousand at a time.

The values of a tuple or a list are matched by position; those of a Row, a dictionary or an object with attributes by
name. If the schema has one column, a record may also be the value itself. Runs in the tasks of a batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from numbers import Integral, Number
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from penstock import SchemaError
from penstock.spi import shown, summary_of
from penstock_dataframes.conform import require_values

Convert = Callable[[Any], Any]

#: Maximum rows of a record batch that is built from records.
ROWS_PER_BATCH = 16_384
# Maximum characters of a reason in a message; the reason may contain data.
_LONGEST_REASON = 100
# Types of values that an integer column accepts without conversion.
_INTEGERS = frozenset({int, type(None)})


def to_batches(records: Iterable[Any], schema: pa.Schema, *, are_values: bool = False) -> Iterator[pa.RecordBatch]:
    """Convert records to record batches.

    Args:
        records: consumed one record batch at a time.
        schema: types that Spark reads.
        are_values: each record is the value of the only column, even if it is a tuple or a dictionary.

    Raises:
        SchemaError: a record does not fit; the message names column and value.
    """
    source = iter(records)
    while run := list(itertools.islice(source, ROWS_PER_BATCH)):
        yield from _converted(run, schema, are_values)


def _converted(run: list[Any], schema: pa.Schema, are_values: bool) -> Iterator[pa.RecordBatch]:
    columns: Sequence[Sequence[Any]] = [run] if are_values else _columns(run, schema)
    arrays = [_array(values, field) for values, field in zip(columns, schema, strict=True)]
    if any(isinstance(array, pa.ChunkedArray) for array in arrays) and len(run) > 1:
        # A column has more than 2 GiB.
        half = len(run) // 2
        yield from _converted(run[:half], schema, are_values)
        yield from _converted(run[half:], schema, are_values)
        return
    for array, field in zip(arrays, schema, strict=True):
        require_values(array, field, field.name)
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _columns(run: list[Any], schema: pa.Schema) -> list[Sequence[Any]]:
    return list(zip(*map(_row_converter(schema), run), strict=True))


def _row_converter(fields: Iterable[pa.Field]) -> Callable[[Any], Sequence[Any]]:
    """The function that returns the values of a record in the order of the columns."""
    columns = list(fields)
    is_nested = len(columns) == 1 and (kinds.is_map(columns[0].type) or kinds.is_struct(columns[0].type))
    return partial(_row, [field.name for field in columns], is_nested)


def _row(names: list[str], is_nested: bool, record: Any) -> Sequence[Any]:
    if isinstance(record, tuple) and hasattr(record, "__fields__"):
        return _row_by_name(names, record)
    if isinstance(record, tuple) or (isinstance(record, list) and len(names) > 1):
        if len(record) != len(names):
            raise SchemaError(
                f"a record has {len(record)} values, and the schema has {len(names)} columns, {', '.join(names)}: "
                f"{shown(record)}"
            )
        return record
    if isinstance(record, dict) and not (is_nested and names[0] not in record):
        return _by_name(names, record, record)
    if len(names) == 1:
        return (record,)
    if getattr(record, "__dict__", None):
        return _by_name(names, vars(record), record)
    raise SchemaError(
        f"the schema has {len(names)} columns, {', '.join(names)}, and a record is {shown(record)}: make each a "
        "tuple, a Row or a dictionary first, with map"
    )


def _row_by_name(names: list[str], row: Any) -> Sequence[Any]:
    fields = list(row.__fields__)
    if fields == names:
        return tuple(row)
    if len(set(fields)) < len(fields):
        raise SchemaError(f"a Row has several values of one name: {shown(row)}")
    return _by_name(names, dict(zip(fields, row, strict=True)), row)


def _by_name(names: list[str], values: dict[str, Any], record: Any) -> Sequence[Any]:
    # An empty record says nothing about the schema. A record with none of the names belongs to another schema.
    if values and values.keys().isdisjoint(names):
        raise SchemaError(f"a record has none of the columns {', '.join(names)}: {shown(record)}")
    return [values.get(name) for name in names]


def _array(values: Sequence[Any], field: pa.Field) -> Any:
    convert = _converter(field.type)
    try:
        return pa.array(_all(convert, values), field.type)
    except (pa.ArrowException, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SchemaError(_complaint(values, field, convert, error)) from None


def _complaint(values: Sequence[Any], field: pa.Field, convert: Convert | None, error: Exception) -> str:
    """Message for the first value that does not fit."""
    for value in values:
        try:
            pa.array([_apply(convert, value)], field.type)
        except Exception as cause:
            reason = " ".join(str(cause).split())[:_LONGEST_REASON]
            return f"a value of the column {field.name!r} does not fit {field.type}: {shown(value)}: {reason}"
    return f"the column {field.name!r} cannot be converted to {field.type}: {summary_of(error)[:_LONGEST_REASON]}"


def _converter(data_type: pa.DataType) -> Convert | None:
    """The function that prepares values for Arrow; ``None`` if Arrow accepts them unchanged."""
    if kinds.is_integer(data_type):
        return _whole
    if kinds.is_timestamp(data_type):
        return _local_instant if data_type.tz else _naive
    if kinds.is_map(data_type):
        return _optional_map(_converter(data_type.key_type), _converter(data_type.item_type))
    if kinds.is_struct(data_type):
        return _struct(list(data_type))
    if kinds.is_list(data_type):
        convert = _converter(data_type.value_type)
        return None if convert is None else partial(_all, convert)
    return None


def _apply(convert: Convert | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)


def _all(convert: Convert | None, values: Sequence[Any]) -> Sequence[Any]:
    if convert is None or (convert is _whole and _INTEGERS.issuperset(map(type, values))):
        return values
    return [_apply(convert, value) for value in values]


def _whole(value: Any) -> Any:
    # Arrow would drop the fraction.
    if isinstance(value, Number) and not isinstance(value, Integral) and value != int(value):  # type: ignore[call-overload]
        raise ValueError("it has a fraction")
    return value


def _local_instant(value: datetime) -> datetime:
    # As in PySpark, a naive time is local.
    return value if value.tzinfo is not None else value.astimezone()


def _naive(value: datetime) -> datetime:
    if value.tzinfo is not None:
        raise TypeError("it has a time zone, and the column is of type timestamp_ntz")
    return value


def _optional_map(key: Convert | None, item: Convert | None) -> Convert:
    def convert(value: Any) -> list[tuple[Any, Any]]:
        pairs = value.items() if hasattr(value, "items") else value
        return [(_apply(key, k), _apply(item, v)) for k, v in pairs]

    return convert


def _struct(fields: Sequence[pa.Field]) -> Convert:
    converters = [(field.name, _converter(field.type)) for field in fields]
    row_of = _row_converter(fields)

    def convert(value: Any) -> dict[str, Any]:
        return {
            name: _apply(convert, field_value)
            for (name, convert), field_value in zip(converters, row_of(value), strict=True)
        }

    return convert
