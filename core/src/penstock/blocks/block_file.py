"""Block files: Arrow IPC, verified by checksum before Arrow reads them, because Arrow may crash on a corrupt file.

A local file is memory-mapped, a remote one is read through ``pyarrow.fs``.
"""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa

from penstock.blocks.arrow_form import ROWS_PER_BATCH
from penstock.errors import BlockDamagedError, BlockGoneError
from penstock.storage import uri

# A file contains one dictionary per column, but every chunk of a column may have its own.
_OPTIONS = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
# A remote file up to this size is read once and verified in memory; a larger one is read twice, in pieces of this size.
_IN_MEMORY_BYTES = 64 << 20


def write(table: pa.Table, sink: Any) -> None:
    """Write a block's table to an Arrow output stream."""
    with pa.ipc.new_file(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table, max_chunksize=ROWS_PER_BATCH)


def write_block_file(table: pa.Table, file: Any) -> tuple[int, int]:
    """Write a block's table to an open binary file, Python's or Arrow's; does not close it.

    Returns:
        The number of bytes written, and their CRC-32.
    """
    summed = _Summed(file)
    with pa.PythonFile(summed, mode="w") as sink:
        write(table, sink)
    return summed.num_bytes, summed.checksum


def open_block_file(path: str, checksum: int | None = None) -> pa.ipc.RecordBatchFileReader:
    """Open a block's file for reading.

    Args:
        path: local path or URI.
        checksum: expected CRC-32 of the file's bytes; ``None`` skips the verification.

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
        while piece := source.read_buffer(_IN_MEMORY_BYTES):
            actual = zlib.crc32(piece, actual)
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
