r"""Readers: convert the bytes of a file to records, several at a time, in the tasks of a batch.

In memory they have a chunk of a file and the current line. A line ends at ``\n``, ``\r\n`` or ``\r``, as in Hadoop's
reader. The remaining bytes at the end of the file are a line, unless there are none. A UTF-8 byte order mark at the
beginning of the file is skipped. Malformed UTF-8 becomes U+FFFD.
"""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
from attrs import field, frozen

from penstock.spi import LineRules, split_lines, text_of
from penstock_file.errors import FileReadError
from penstock_file.file_bytes import FileBytes
from penstock_file.pieces import FilePiece

# The allocator maps larger chunks anew for each read, which is three times as slow.
_CHUNK = 1 << 18
# Bytes read at a time after the end of a piece to find the end of its last line.
_TAIL = 1 << 16
_MARK = b"\xef\xbb\xbf"
_END = object()
_ANY_LINE = LineRules(max_line_bytes=sys.maxsize)


class Reader(Protocol):
    """Turns the bytes of a piece into records. Pickled with the task."""

    @property
    def unit(self) -> int | None:
        """Files may be split at multiples of this many bytes; ``None``: they may not be split."""
        ...

    @property
    def column_type(self) -> pa.DataType | None:
        """Type of the column that ``columns`` yields; ``None`` for a reader of Python objects."""
        ...

    def runs(self, data: FileBytes, piece: FilePiece) -> Iterator[Sequence[Any]]:
        """Yield the records of a piece, several at a time.

        Raises:
            FileReadError: the bytes are not records.
            OSError: the file cannot be read.
        """
        ...

    def columns(self, data: FileBytes, piece: FilePiece) -> Iterator[Any]:
        """Yield the same records as Arrow arrays.

        Raises:
            FileReadError: the bytes are not records.
            OSError: the file cannot be read.
        """
        ...


@frozen
class LineReader:
    """Reads lines.

    Attributes:
        chunk: bytes read at a time.
    """

    chunk: int = _CHUNK
    unit: int | None = field(default=1, init=False)
    column_type: pa.DataType = field(default=pa.string(), init=False)

    def runs(self, data: FileBytes, piece: FilePiece) -> Iterator[list[str]]:
        """Yield the lines that begin in the piece."""
        return map(decoded_lines, self._blocks(data, piece))

    def columns(self, data: FileBytes, piece: FilePiece) -> Iterator[Any]:
        """Yield the lines that begin in the piece."""
        return (split_lines(memoryview(_unified(block))[:-1], _ANY_LINE).column for block in self._blocks(data, piece))

    def _blocks(self, data: FileBytes, piece: FilePiece) -> Iterator[bytes]:
        stop = sys.maxsize if data.is_compressed else piece.stop
        return line_blocks(data.read, piece.start, stop, self.chunk)


@frozen
class RecordReader:
    """Reads records of fixed length.

    Attributes:
        unit: bytes of a record.
        chunk: bytes read at a time, at least one record.
    """

    unit: int | None
    chunk: int = _CHUNK
    column_type: pa.DataType = field(default=pa.binary(), init=False)

    def runs(self, data: FileBytes, piece: FilePiece) -> Iterator[list[bytes]]:
        """Yield the records of the piece."""
        cut = struct.Struct(f"{self.unit}s").iter_unpack
        return (list(itertools.chain.from_iterable(cut(chunk))) for chunk in self._chunks(data, piece))

    def columns(self, data: FileBytes, piece: FilePiece) -> Iterator[Any]:
        """Yield the records of the piece."""
        length = self.unit or 1
        for chunk in self._chunks(data, piece):
            records = pa.Array.from_buffers(pa.binary(length), len(chunk) // length, [None, pa.py_buffer(chunk)])
            yield records.cast(self.column_type)

    def _chunks(self, data: FileBytes, piece: FilePiece) -> Iterator[bytes]:
        """Yield the bytes of whole records."""
        length = self.unit or 1
        if not data.is_compressed and piece.size % length:
            raise FileReadError(self._wrong(piece, piece.size))
        at_once = max(self.chunk // length, 1) * length
        if piece.start:
            data.read(1)  # the byte before the piece
        left = sys.maxsize if data.is_compressed else piece.stop - piece.start
        num_bytes = 0
        while left and (chunk := data.read(min(at_once, left))):
            num_bytes += len(chunk)
            left -= len(chunk)
            if len(chunk) % length:
                raise FileReadError(self._wrong(piece, num_bytes))
            yield chunk

    def _wrong(self, piece: FilePiece, size: int) -> str:
        return (
            f"{piece.path} has {size} bytes, not a multiple of record_length={self.unit}: "
            "it is incomplete, or does not hold such records"
        )


@frozen
class ProgramReader:
    """Reads the records that a user function returns.

    Attributes:
        read: called with the open file; returns its records.
    """

    read: Callable[[BinaryIO], Iterable[Any]]
    unit: int | None = field(default=None, init=False)
    column_type: None = field(default=None, init=False)

    def columns(self, data: FileBytes, piece: FilePiece) -> Iterator[Any]:
        """Refuse: the records are Python objects."""
        raise TypeError("records that a function reads are Python objects, not columns")

    def runs(self, data: FileBytes, piece: FilePiece) -> Iterator[tuple[Any]]:
        """Yield the records of the file, one at a time."""
        try:
            with data.as_file() as file:
                records = iter(self.read(file))
                for record in records:
                    yield (record,)
                # If the iterator continues, it was not exhausted: the StopIteration came from user code.
                if next(records, _END) is not _END:
                    raise RuntimeError("user code raised StopIteration")
        except StopIteration as error:
            raise FileReadError(f"read raised StopIteration on {piece.path}: its records would end silently") from error
        except Exception as error:
            words = " ".join(text_of(error).split())
            raise FileReadError(f"read failed on {piece.path}: {type(error).__name__}: {words}") from error


def line_blocks(read: Callable[[int], bytes], start: int, stop: int, chunk: int) -> Iterator[bytes]:
    """Yield the lines that begin in a range of a file, several at a time; each block ends with a line ending.

    Args:
        read: reads from the byte before the start, or from the start if that is 0, to the end of the file.
        start: first byte of the range.
        stop: offset after the last byte of the range.
        chunk: bytes to read at a time.
    """
    ahead = b""
    left = stop - start
    # Whether the last byte was a carriage return: a newline after it belongs to the same line ending.
    after_return = False
    # The current line so far, without a line ending.
    parts: list[bytes] = []
    # Whether a line has begun, even if none of its bytes was read.
    begun = False
    if start == 0:
        while len(ahead) < len(_MARK) and (data := read(len(_MARK) - len(ahead))):
            ahead += data
        if ahead == _MARK:
            left -= len(_MARK)
            ahead, begun = b"", left <= 0
    else:
        before = read(1)
        after_return = before == b"\r"
        # The range begins inside a line that belongs to the previous range.
        while before not in b"\r\n":
            data = read(min(chunk, left)) if left > 0 else b""
            if not data:
                return
            left -= len(data)
            end = _first_end(data)
            if end >= 0:
                ahead, before = data[end + 1 :], data[end : end + 1]
                after_return = before == b"\r"
                left += len(ahead)
    while left > 0:
        if ahead:
            data, ahead = ahead[:left], ahead[left:]
        else:
            data = read(min(chunk, left))
        if not data:
            break
        left -= len(data)
        if after_return and data.startswith(b"\n"):
            data = data[1:]
            after_return = False
            if not data:
                continue
        after_return = data.endswith(b"\r")
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end:
            yield b"".join((*parts, data[:end]))
            parts.clear()
        if end < len(data):
            parts.append(data[end:])
    # The last line continues after the range.
    while left <= 0 and (parts or begun):
        if ahead:
            data, ahead = ahead, b""
        else:
            data = read(min(chunk, _TAIL))
        end = _first_end(data)
        parts.append(data if end < 0 else data[:end])
        if end >= 0 or not data:
            if end >= 0 or any(parts):
                yield b"".join((*parts, b"\n"))
            return
    if parts:
        yield b"".join((*parts, b"\n"))


def _unified(block: bytes) -> bytes:
    """Replace each line ending by a newline."""
    return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block


def decoded_lines(block: bytes) -> list[str]:
    """Split bytes that end with a line ending."""
    block = _unified(block)
    # Decode before splitting: in UTF-8 no other character contains the byte of a newline, not even a malformed one.
    lines = block.decode("utf-8", "replace").split("\n")
    lines.pop()
    return lines


def _first_end(data: bytes) -> int:
    newline = data.find(b"\n")
    carriage_return = data.find(b"\r", 0, newline if newline >= 0 else len(data))
    return newline if carriage_return < 0 else carriage_return
