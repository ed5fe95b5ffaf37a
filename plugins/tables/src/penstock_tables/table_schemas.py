"""The rules by which the columns of a batch become columns of a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import frozen

from penstock import PenstockError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Changes of type that keep every value.
_WIDER = [
    (pa.types.is_integer, pa.types.is_integer),
    (pa.types.is_integer, pa.types.is_floating),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_timestamp, pa.types.is_timestamp),
    (pa.types.is_date, pa.types.is_timestamp),
    (pa.types.is_decimal, pa.types.is_decimal),
    (pa.types.is_integer, pa.types.is_decimal),
]


class TableSchemaError(PenstockError):
    """A batch's columns do not match the table's."""


@frozen
class SchemaPlan:
    """The columns to write, in the table's order, and the columns to add to the table before."""

    schema: pa.Schema
    added: tuple[pa.Field, ...] = ()


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return Arrow's form of Spark's columns; a ``TIMESTAMP`` is an instant, in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before PySpark 4.3 instants are in UTC without being asked.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    arrow: pa.Schema = to_arrow_schema(schema, **zone)
    return arrow


def plan(table: pa.Schema, batch: pa.Schema, name: str, *, adds_columns: bool) -> SchemaPlan:
    """Match the columns of a batch with those of a table, by name.

    A column that the batch lacks is written as null. A type is accepted if its values can be converted without a loss;
    values that do not fit, such as a number that is too large, are refused record by record.

    Args:
        table: columns of the table.
        batch: columns of the batch.
        name: the table's, for messages.
        adds_columns: whether a column that the table lacks is added to it; otherwise it is an error.

    Raises:
        TableSchemaError: a column is missing and may not be null, is unknown, or has another type.
    """
    problems = [
        f"column {column.name!r} is {batch.field(column.name).type} in the batch and {column.type} in the table"
        for column in table
        if column.name in batch.names and not is_convertible(batch.field(column.name).type, column.type)
    ]
    problems += [
        f"column {column.name!r} of the table has no null values, and the batch lacks it"
        for column in table
        if not column.nullable and column.name not in batch.names
    ]
    new = [column for column in batch if column.name not in table.names]
    if new and not adds_columns:
        names = ", ".join(repr(column.name) for column in new)
        problems.append(f"the table has no column {names}: select the others, or set add_columns=True")
    if problems:
        raise TableSchemaError(f"the batch does not fit {name}: {'; '.join(problems)}")
    added = tuple(column.with_nullable(True) for column in new)
    return SchemaPlan(pa.schema([*(column.remove_metadata() for column in table), *added]), added)


def check_partition_columns(partition_by: Sequence[str], schema: pa.Schema) -> None:
    """Check that a new table has its partition columns, and a further column.

    Raises:
        TableSchemaError: it has not.
    """
    missing = [name for name in partition_by if name not in schema.names]
    if missing or set(schema.names) <= set(partition_by):
        raise TableSchemaError(
            f"partition_by={list(partition_by)} does not fit the batch, whose columns are {schema.names}: name some of "
            "them, not all"
        )


def is_convertible(from_type: pa.DataType, to_type: pa.DataType) -> bool:
    """Whether values of a type can be converted; single values may still not fit."""
    if from_type == to_type or pa.types.is_null(from_type):
        return True
    if _is_text(from_type) and _is_text(to_type):
        return True
    if _is_bytes(from_type) and _is_bytes(to_type):
        return True
    if _is_list(from_type) and _is_list(to_type):
        return is_convertible(from_type.value_type, to_type.value_type)
    if pa.types.is_map(from_type) and pa.types.is_map(to_type):
        return is_convertible(from_type.key_type, to_type.key_type) and is_convertible(
            from_type.item_type, to_type.item_type
        )
    if pa.types.is_struct(from_type) and pa.types.is_struct(to_type):
        own, other = _children(from_type), _children(to_type)
        return [column.name for column in own] == [column.name for column in other] and all(
            is_convertible(one.type, two.type) for one, two in zip(own, other, strict=True)
        )
    return any(accepts(from_type) and becomes(to_type) for accepts, becomes in _WIDER)


def _children(struct: pa.StructType) -> Sequence[pa.Field]:
    return [struct.field(number) for number in range(struct.num_fields)]


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))


def _is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))
