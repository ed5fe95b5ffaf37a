"""Fits the records of a partition to the columns of a table, and sets aside the records that do not fit."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen

from penstock import PenstockError
from penstock.spi import shown, summary_of

# Records that are converted together.
_ROWS = 16_384
# What Arrow raises for values that do not fit.
_MISFITS = (ValueError, TypeError, OverflowError, pa.ArrowException)


class RowsRefusedError(PenstockError):
    """Records of a batch do not fit the table, and no dead-letter directory was configured."""


@frozen
class RefusedRow:
    """A record that does not fit, in a form that JSON has, and the reason."""

    record: Any
    reason: str


@define
class RowFitting:
    """Converts records and Arrow batches to a schema.

    Attributes:
        schema: the columns to write.
        refused: the records that did not fit.
    """

    schema: pa.Schema
    refused: list[RefusedRow] = field(factory=list)

    def records(self, records: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """Convert records: mappings, rows, or tuples in the order of the columns; single values for one column."""
        iterator = iter(records)
        while piece := list(islice(iterator, _ROWS)):
            if (batch := self._from_tuples(piece)) is not None:
                yield batch
                continue
            named = list(self._named(piece))
            yield from self._fitted(named, self._from_rows, lambda rows: rows[0])

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert Arrow batches."""
        for batch in batches:
            yield from self._fitted(batch, self._from_batch, lambda row: row.to_pylist()[0])

    def _from_tuples(self, records: Sequence[Any]) -> pa.RecordBatch | None:
        """Convert tuples that all fit, column by column; ``None`` for other records."""
        if set(map(type, records)) != {tuple} or set(map(len, records)) != {len(self.schema)}:
            return None
        columns = zip(zip(*records, strict=True), self.schema, strict=True)
        try:
            arrays = [pa.array(values, column.type) for values, column in columns]
            return self._checked(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
        except _MISFITS:
            return None

    def _named(self, records: Iterable[Any]) -> Iterator[dict[str, Any]]:
        names = self.schema.names
        for record in records:
            try:
                yield _fields(record, names)
            except ValueError as error:
                self.refused.append(RefusedRow(to_json(record), str(error)))

    def _from_rows(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        unknown = {name for row in rows for name in row} - set(self.schema.names)
        if unknown:
            raise ValueError(f"the table has no column {', '.join(map(repr, sorted(unknown)))}")
        return self._checked(pa.RecordBatch.from_pylist(rows, schema=self.schema))

    def _from_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            batch.column(column.name).cast(column.type, safe=True)
            if column.name in batch.schema.names
            else pa.nulls(batch.num_rows, column.type)
            for column in self.schema
        ]
        return self._checked(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for column, values in zip(self.schema, batch.columns, strict=True):
            if not column.nullable and values.null_count:
                raise ValueError(f"column {column.name!r} has no null values")
        return batch

    def _fitted(
        self, rows: Any, convert: Callable[[Any], pa.RecordBatch], record_of: Callable[[Any], Any]
    ) -> Iterator[pa.RecordBatch]:
        """Convert rows together; halve them until the rows that do not fit are alone."""
        if not len(rows):
            return
        try:
            yield convert(rows)
        except _MISFITS as error:
            if len(rows) == 1:
                self.refused.append(RefusedRow(to_json(record_of(rows)), summary_of(error)))
                return
            middle = len(rows) // 2
            yield from self._fitted(rows[:middle], convert, record_of)
            yield from self._fitted(rows[middle:], convert, record_of)


def _fields(record: Any, names: Sequence[str]) -> dict[str, Any]:
    if isinstance(record, Mapping):
        return dict(record)
    if hasattr(record, "asDict"):
        fields: dict[str, Any] = record.asDict()
        return fields
    if isinstance(record, tuple | list):
        if len(record) != len(names):
            raise ValueError(f"the record has {len(record)} values, and the table has {len(names)} columns")
        return dict(zip(names, record, strict=True))
    if len(names) == 1:
        return {names[0]: record}
    raise ValueError(f"a record for several columns is a mapping, a Row or a tuple, not {type(record).__name__}")


def to_json(value: Any) -> Any:
    """The value in a form that JSON has; what has none as text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
        case list() | tuple():
            return [to_json(item) for item in value]
        case bytes():
            return value.decode(errors="backslashreplace")
        case datetime.datetime() | datetime.date() | decimal.Decimal():
            return str(value)
    return shown(value)


def as_lines(batch_time_ms: int, refused: Iterable[RefusedRow]) -> bytes:
    """The records as JSON lines: ``batch_time``, ``reason``, ``record``."""
    lines = (
        json.dumps({"batch_time": batch_time_ms, "reason": row.reason, "record": row.record}, ensure_ascii=False)
        for row in refused
    )
    return "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")
