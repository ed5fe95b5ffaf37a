"""The Arrow form of records: decoded records equal the encoded ones in type and value.

There are three forms. ``value``: records of exactly one of the types str, bytes, int, float and bool, as one typed
column. ``pickle``: anything else, pickled in groups into a binary column. ``columns``: the columnar batch of a
``store_arrow``.
"""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen

from penstock.runtime.pickle_value import pickle_value

_FORM = b"penstock.form"
_VALUE, _PICKLE, _COLUMNS = b"value", b"pickle", b"columns"
_TYPES: dict[type, pa.DataType] = {
    str: pa.string(),
    bytes: pa.binary(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
}
#: Records per record batch. A reader holds one batch as Python objects at a time.
ROWS_PER_BATCH = 16_384
# Records per pickle. They share its memo, which makes small records several times cheaper.
_RECORDS_PER_PICKLE = 256


@frozen
class Column:
    """Records as an Arrow column: one typed value per record, or pickled groups of records."""

    values: pa.ChunkedArray
    is_pickled: bool

    def has_form_of(self, other: Column) -> bool:
        """Whether both columns fit into one table."""
        return self.is_pickled == other.is_pickled and bool(self.values.type == other.values.type)


def encode(records: Sequence[Any]) -> pa.Table:
    """Encode records as a table; raises the error of pickling if a record has no typed form and cannot be pickled."""
    return table([column(records)])


def column(records: Sequence[Any], *, pickled: bool = False) -> Column:
    """Encode records as a column, in order; raises as ``encode``. Without a record, ``pickled`` must be set."""
    kinds = set(map(type, records))
    if not pickled and len(kinds) == 1 and (data_type := _TYPES.get(kinds.pop())) is not None:
        try:
            return Column(_column(records, data_type), is_pickled=False)
        except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
            pass  # an int beyond 64 bits or a lone surrogate: no typed column holds it
    runs = [pickle_value(list(run)) for run in _runs(records, _RECORDS_PER_PICKLE)]
    return Column(_column(runs, pa.large_binary()), is_pickled=True)


def table(columns: Sequence[Column]) -> pa.Table:
    """Concatenate columns of one form, at least one, into a table."""
    form = columns[0]
    chunks = [chunk for part in columns for chunk in part.values.chunks]
    values = pa.chunked_array(chunks, form.values.type)
    return pa.table({"value": values}).replace_schema_metadata({_FORM: _PICKLE if form.is_pickled else _VALUE})


def is_storable(record: Any) -> bool:
    """Whether a record can be encoded."""
    try:
        pickle_value([record])
    except Exception:
        return False
    return True


def from_columns(batch: pa.RecordBatch | pa.Table) -> pa.Table:
    """Mark a columnar batch as a block's table; refuses one without columns."""
    if isinstance(batch, pa.RecordBatch):
        batch = pa.Table.from_batches([batch])
    if not isinstance(batch, pa.Table):
        raise TypeError(f"store_arrow takes a pyarrow RecordBatch or Table, not {type(batch).__name__}")
    if batch.num_columns == 0:
        raise ValueError("store_arrow was given a batch without columns: there is nothing to store")
    return batch.replace_schema_metadata({**(batch.schema.metadata or {}), _FORM: _COLUMNS})


def is_columnar(table: pa.Table) -> bool:
    """Whether a block's table is the columnar batch of a ``store_arrow``."""
    return (table.schema.metadata or {}).get(_FORM) == _COLUMNS


def is_pickled(schema: pa.Schema) -> bool:
    """Whether record batches of this schema contain pickled records."""
    return (schema.metadata or {}).get(_FORM) == _PICKLE


def records(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """Decode records, one batch at a time."""
    return itertools.chain.from_iterable(map(_decode, batches))


def num_records(batch: pa.RecordBatch) -> int:
    """The number of records in a record batch; decodes only pickled ones."""
    if is_pickled(batch.schema):
        return sum(len(pickle.loads(run)) for run in batch.column(0).to_pylist())
    return int(batch.num_rows)


def piece(batches: Iterable[pa.RecordBatch], first: int, end: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the records ``first`` to ``end`` (exclusive; ``None``: to the block's end).

    Rows are not decoded: a row of pickled records counts as a full group. Consecutive pieces contain every row once.
    """
    offset = 0
    for batch in batches:
        records_per_row = _RECORDS_PER_PICKLE if is_pickled(batch.schema) else 1
        start = max(math.ceil((first - offset) / records_per_row), 0)
        stop = batch.num_rows if end is None else min(math.ceil((end - offset) / records_per_row), batch.num_rows)
        if start < stop:
            yield batch.slice(start, stop - start)
        offset += batch.num_rows * records_per_row
        if end is not None and offset >= end:
            return


def _decode(batch: pa.RecordBatch) -> Iterable[Any]:
    if is_pickled(batch.schema):
        return itertools.chain.from_iterable(map(pickle.loads, batch.column(0).to_pylist()))
    if batch.num_columns == 1:
        values: list[Any] = batch.column(0).to_pylist()
        return values
    from pyspark.sql import Row  # slow to import, and only blocks with several columns need it

    names: Callable[..., Row] = Row(*batch.schema.names)
    return itertools.starmap(names, zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _runs(values: Sequence[Any], length: int) -> Iterator[Sequence[Any]]:
    return (values[start : start + length] for start in range(0, len(values), length))


def _column(values: Sequence[Any], data_type: pa.DataType) -> pa.ChunkedArray:
    chunks: list[pa.Array] = []
    for run in _runs(values, ROWS_PER_BATCH):
        array = pa.array(run, data_type)  # a ChunkedArray past 2 GiB
        chunks.extend(array.chunks if isinstance(array, pa.ChunkedArray) else [array])
    return pa.chunked_array(chunks, data_type)
