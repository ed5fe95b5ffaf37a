"""The file that a block is: Arrow's IPC format, checked before it is read where its checksum is known.

Owns how such a file is written, whatever it is written to, and how it is opened: mapped where it is a path of this
host, through ``pyarrow.fs`` where it is a URI. A damaged file never reaches Arrow, which may misbehave on it. Runs on
whatever thread stores, and in the tasks that read.
"""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa

from penstock.blocks.arrow_form import ROWS_PER_BATCH
from penstock.errors import BlockDamagedError, BlockGoneError
from penstock.storage import uri

# Chunks of a column may come with dictionaries of their own; a file has room for one.
_OPTIONS = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
# A remote file up to that size is read once and checked in memory; a larger one twice, in such pieces.
_IN_MEMORY_BYTES = 64 << 20


def write(table: pa.Table, sink: Any) -> None:
    """Write a block's table to one of Arrow's streams."""
    with pa.ipc.new_file(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table, max_chunksize=ROWS_PER_BATCH)


def write_summed(table: pa.Table, file: Any) -> tuple[int, int]:
    """Write a block's table to a binary file, Python's or Arrow's, which stays open.

    Returns:
        How many bytes that were, and their checksum.
    """
    summed = _Summed(file)
    with pa.PythonFile(summed, mode="w") as sink:
        write(table, sink)
    return summed.num_bytes, summed.checksum


def open_file(path: str, checksum: int | None = None) -> pa.ipc.RecordBatchFileReader:
    """Open a block's file for reading.

    Args:
        path: of this host, or a URI.
        checksum: of its bytes, ``None`` when that is not known: then it is not checked.

    Raises:
        BlockGoneError: the file is not there.
        BlockDamagedError: its bytes are not those that were stored.
    """
    try:
        source = _open_remote(path, checksum) if uri.is_remote(path) else pa.memory_map(path)
    except FileNotFoundError:
        raise BlockGoneError(f"the block file {path} is not there") from None
    if checksum is not None and not uri.is_remote(path):
        _check(path, zlib.crc32(source.read_buffer()), checksum)
        source.seek(0)
    return pa.ipc.open_file(source)


def _open_remote(path: str, checksum: int | None) -> Any:
    directory, _, name = path.rpartition("/")
    system, home = uri.connect(directory)
    file = system.open_input_file(f"{home}/{name}")
    if checksum is None:
        return file
    if file.size() <= _IN_MEMORY_BYTES:
        with file:
            content = file.read_buffer()
        _check(path, zlib.crc32(content), checksum)
        return content
    found = 0
    while piece := file.read_buffer(_IN_MEMORY_BYTES):
        found = zlib.crc32(piece, found)
    _check(path, found, checksum)
    file.seek(0)
    return file


def _check(path: str, found: int, stored: int) -> None:
    if found != stored:
        raise BlockDamagedError(
            f"the block file {path} is damaged: its checksum is {found:08x}, what was stored has {stored:08x}"
        )


class _Summed:
    """What Arrow takes for a file: sums up the bytes on their way to another."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self.num_bytes = self.checksum = 0

    def write(self, data: Any) -> None:
        self.checksum = zlib.crc32(data, self.checksum)
        self.num_bytes += len(data)
        self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Nothing: the file is its owner's to close."""
