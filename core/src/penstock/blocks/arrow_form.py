"""The Arrow form of records: decoded records equal the encoded ones in type and value.

There are three forms. ``value``: records of exactly one of the types str, bytes, int, float and bool, as one typed
column. ``pickle``: anything else, pickled in groups into a binary column. ``columns``: the columnar batch of a
``store_arrow``.

A block file is Arrow IPC. A local one is memory-mapped, a remote one is read through ``pyarrow.fs``. Files of the
write-ahead log are verified by checksum before Arrow reads them, because Arrow may crash on a corrupt file. Other files
have no checksum: no other run reads them, and for 20 MB a write would take 14 ms of processor time instead of 6, and
opening 10 ms instead of 0.1.
"""

from __future__ import annotations

import itertools
import math
import pickle
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import BlockDamagedError, BlockGoneError
from penstock.runtime.pickle_value import pickle_value
from penstock.storage import uri

_FORM = b"penstock.form"
_VALUE, _PICKLE, _COLUMNS = b"value", b"pickle", b"columns"
_TYPES: dict[type, pa.DataType] = {
    str: pa.string(),
    bytes: pa.binary(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
}
# The type of pickled groups of records, which no typed column has.
_PICKLED = pa.large_binary()
#: Records per record batch. A reader holds one batch as Python objects at a time.
ROWS_PER_BATCH = 16_384
# Records per pickle. They share its memo, which makes small records several times cheaper.
_RECORDS_PER_PICKLE = 256
# A file contains one dictionary per column, but every chunk of a column may have its own.
_OPTIONS = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
# A remote file up to this size is read once and verified in memory; a larger one is read twice, in pieces of this size.
_IN_MEMORY_BYTES = 64 << 20
# Maximum number of records that are encoded together.
_PIECE = 4096
# A table of large records consists of at least this many pieces: a piece is in memory twice while it is encoded.
_PIECES = 8
# A piece may have this many times the records of the one before, so that the first ones are small.
_GROWTH = 4
# An iterator may create its records as they are read. So a piece of it ends early if the last of each _LOOK records is
# _LARGER times as large as those before. A sequence is in memory already.
_LOOK, _LARGER = 256, 8


def encode(records: Sequence[Any]) -> pa.Table:
    """Encode records as a table; raises the error of pickling if a record has no typed form and cannot be pickled."""
    return table([column(records)])


def column(records: Sequence[Any], *, pickled: bool = False) -> pa.ChunkedArray:
    """Encode records in order: one typed value per record, or groups of pickled records. Raises as ``encode``."""
    kinds = set(map(type, records))
    if not pickled and len(kinds) == 1 and (data_type := _TYPES.get(kinds.pop())) is not None:
        try:
            return _chunked(records, data_type)
        except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
            pass  # an int beyond 64 bits or a lone surrogate: no typed column holds it
    return _chunked([pickle_value(list(run)) for run in _runs(records, _RECORDS_PER_PICKLE)], _PICKLED)


def table(columns: Sequence[pa.ChunkedArray]) -> pa.Table:
    """Concatenate columns of one type, at least one, into a table."""
    data_type = columns[0].type
    values = pa.chunked_array([chunk for part in columns for chunk in part.chunks], data_type)
    form = _PICKLE if data_type == _PICKLED else _VALUE
    return pa.table({"value": values}).replace_schema_metadata({_FORM: form})


def sized_tables(
    records: Iterable[Any], max_records: Callable[[], int], max_bytes: int, *, marks_last: bool = False
) -> Iterator[tuple[pa.Table, int, bool]]:
    """Encode an iterable as tables of bounded size, with the number of records, and whether the table is the last.

    ``max_records`` is called before each table. A single record may exceed ``max_bytes``; records of very different
    sizes may exceed it by those taken between two checks. Only ``marks_last`` reads one record ahead, to know the last.
    """
    rest = source = iter(records)
    piece_records, record_bytes = 1, max_bytes
    columns: list[pa.ChunkedArray] = []
    count, num_bytes, most = 0, 0, max_records()
    look = _PIECE if isinstance(records, Sequence) else _LOOK
    while piece := _take(source, min(piece_records, most - count), look, record_bytes):
        columns = _with(columns, piece)
        added = columns[-1].nbytes - (num_bytes if len(columns) == 1 else 0)
        count, num_bytes = count + len(piece), num_bytes + added
        record_bytes = max(added // len(piece), 1)
        if count >= most or num_bytes + record_bytes > max_bytes:
            following = list(itertools.islice(source, 1)) if marks_last else []
            yield table(columns), count, marks_last and not following
            source = itertools.chain(following, rest)
            columns, count, num_bytes, most = [], 0, 0, max_records()
        left_bytes = min(max_bytes - num_bytes, max_bytes // _PIECES)
        piece_records = max(min(piece_records * _GROWTH, _PIECE, left_bytes // record_bytes), 1)
    if columns:
        yield table(columns), count, marks_last


def _take(source: Iterator[Any], count: int, look: int, record_bytes: int) -> list[Any]:
    """Take records; fewer if they are suddenly large."""
    piece = list(itertools.islice(source, min(count, look)))
    while len(piece) < count and piece and sys.getsizeof(piece[-1]) < record_bytes * _LARGER + 1000:
        before = len(piece)
        piece += itertools.islice(source, min(count - before, look))
        if len(piece) == before:
            break
    return piece


def _with(columns: list[pa.ChunkedArray], piece: list[Any]) -> list[pa.ChunkedArray]:
    """Append records to columns of one type."""
    added = column(piece, pickled=bool(columns) and columns[0].type == _PICKLED)
    if not columns or added.type == columns[0].type:
        return [*columns, added]
    # The records turn out to be of mixed types: pickle them all.
    before = records(table(columns).to_batches())
    return [column([*before, *piece], pickled=True)]


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


def _chunked(values: Sequence[Any], data_type: pa.DataType) -> pa.ChunkedArray:
    chunks: list[pa.Array] = []
    for run in _runs(values, ROWS_PER_BATCH):
        array = pa.array(run, data_type)  # a ChunkedArray past 2 GiB
        chunks.extend(array.chunks if isinstance(array, pa.ChunkedArray) else [array])
    return pa.chunked_array(chunks, data_type)


def prepare_encoding() -> None:
    """Encode a record. The first use of Arrow imports pandas, if it is installed, which takes a second."""
    write_table(encode([""]), pa.BufferOutputStream())


def write_table(table: pa.Table, sink: Any) -> None:
    """Write a block's table to an Arrow output stream."""
    with pa.ipc.new_file(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table, max_chunksize=ROWS_PER_BATCH)


def write_block_file(table: pa.Table, file: Any) -> tuple[int, int]:
    """Write a block's table to an open binary file, Python's or Arrow's; return its size and CRC-32."""
    summed = _Summed(file)
    with pa.PythonFile(summed, mode="w") as sink:
        write_table(table, sink)
    return summed.num_bytes, summed.checksum


def open_block_file(path: str, checksum: int | None = None) -> pa.ipc.RecordBatchFileReader:
    """Open a block's file, a local path or URI; ``checksum`` is the expected CRC-32 of its bytes, if it is verified.

    Raises:
        BlockGoneError: the file does not exist.
        BlockDamagedError: the checksum differs.
    """
    try:
        source = _open_remote(path, verified=checksum is not None) if uri.is_remote(path) else pa.memory_map(path)
    except FileNotFoundError:
        raise BlockGoneError(f"the block file {path} does not exist") from None
    if checksum is not None:
        actual = 0
        while part := source.read_buffer(_IN_MEMORY_BYTES):
            actual = zlib.crc32(part, actual)
        if actual != checksum:
            raise BlockDamagedError(
                f"the block file {path} is damaged: its checksum is {actual:08x}, and was {checksum:08x} when it was "
                "stored"
            )
        source.seek(0)
    return pa.ipc.open_file(source)


def _open_remote(path: str, *, verified: bool) -> Any:
    directory, _, name = path.rpartition("/")
    system, home = uri.connect(directory)
    file = system.open_input_file(f"{home}/{name}")
    if verified and file.size() <= _IN_MEMORY_BYTES:
        with file:
            return pa.BufferReader(file.read_buffer())
    return file


class _Summed:
    """A file object for Arrow that writes to another file, and counts and checksums the bytes."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self.num_bytes = 0
        self.checksum = 0

    def write(self, data: Any) -> None:
        self.checksum = zlib.crc32(data, self.checksum)
        self.num_bytes += len(data)
        self._file.write(data)

    def close(self) -> None:
        """Leave the file open, because its owner closes it."""
