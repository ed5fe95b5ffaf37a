r"""Readers: from the bytes of a file to records, in runs.

Owns what a record is: a line, so many bytes, or what a function of the program yields. Never holds more of a file than
a chunk and the line at hand. Runs in the tasks of a batch.

A line ends at ``\n``, ``\r\n`` or ``\r``, as Hadoop's reader has it; the rest at the end of the file is a line, unless
it is empty; a UTF-8 byte order mark at its beginning is no part of it. What is no UTF-8 becomes U+FFFD.
"""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Protocol

from attrs import field, frozen

from penstock_file.errors import FileReadError
from penstock_file.file_bytes import FileBytes
from penstock_file.pieces import FilePiece

# More makes each chunk new memory of the system, and reading three times as slow.
_CHUNK = 1 << 18
# What is read behind the end of a piece to find the end of its last line.
_TAIL = 1 << 16
_MARK = b"\xef\xbb\xbf"
_END = object()


class Reader(Protocol):
    """Makes records of bytes. Pickled to the tasks."""

    @property
    def unit(self) -> int | None:
        """A file may be split at multiples of so many bytes; ``None``: nowhere."""
        ...

    def runs(self, data: FileBytes, piece: FilePiece) -> Iterator[Sequence[Any]]:
        """The records of a piece, several at a time.

        Raises:
            FileReadError: the piece holds what is no record.
            OSError: it cannot be read.
        """
        ...


@frozen
class LineReader:
    """Reads lines.

    Attributes:
        chunk: how many bytes at a time.
    """

    chunk: int = _CHUNK
    unit: int | None = field(default=1, init=False)

    def runs(self, data: FileBytes, piece: FilePiece) -> Iterator[list[str]]:
        """The lines that begin in the piece."""
        stop = sys.maxsize if data.is_compressed else piece.stop
        return line_runs(data.read, piece.start, stop, self.chunk)


@frozen
class RecordReader:
    """Reads records of fixed length.

    Attributes:
        unit: the length.
        chunk: how many bytes at a time, or one record.
    """

    unit: int | None
    chunk: int = _CHUNK

    def runs(self, data: FileBytes, piece: FilePiece) -> Iterator[list[bytes]]:
        """The records of the piece, which has a whole number of them."""
        length = self.unit or 1
        if not data.is_compressed and piece.size % length:
            raise FileReadError(self._wrong(piece, piece.size))
        at_once = max(self.chunk // length, 1) * length
        cut = struct.Struct(f"{length}s").iter_unpack
        if piece.start:
            data.read(1)  # the byte before the piece
        left = sys.maxsize if data.is_compressed else piece.stop - piece.start
        num_bytes = 0
        while left and (chunk := data.read(min(at_once, left))):
            num_bytes += len(chunk)
            left -= len(chunk)
            if len(chunk) % length:
                raise FileReadError(self._wrong(piece, num_bytes))
            yield list(itertools.chain.from_iterable(cut(chunk)))

    def _wrong(self, piece: FilePiece, size: int) -> str:
        return (
            f"{piece.path} holds {size} bytes, which is no multiple of the record length {self.unit}: "
            "it was not moved in whole, or does not hold such records"
        )


@frozen
class ProgramReader:
    """Reads what a function of the program yields.

    Attributes:
        read: given the open file, returns its records.
    """

    read: Callable[[BinaryIO], Iterable[Any]]
    unit: int | None = field(default=None, init=False)

    def runs(self, data: FileBytes, piece: FilePiece) -> Iterator[tuple[Any]]:
        """The records of the file, each for itself."""
        try:
            with data.as_file() as file:
                records = iter(self.read(file))
                for record in records:
                    yield (record,)
                # An iterator is at its end for ever, unless a StopIteration of the program's only looked like it.
                if next(records, _END) is not _END:
                    raise RuntimeError("a function of the program raised StopIteration")
        except StopIteration as error:
            raise FileReadError(f"read raised StopIteration on {piece.path}: its records would end silently") from error
        except Exception as error:
            words = " ".join(str(error).split())
            raise FileReadError(f"read failed on {piece.path}: {type(error).__name__}: {words}") from error


def line_runs(read: Callable[[int], bytes], start: int, stop: int, chunk: int) -> Iterator[list[str]]:
    """The lines that begin in a range of a file.

    Args:
        read: reads on from the byte before the start, or from the start if that is 0; to the end of the file.
        start: of the range.
        stop: of the range.
        chunk: how many bytes to read at a time.
    """
    ahead = b""
    left = stop - start
    # The last byte was a carriage return: a newline that follows belongs to it.
    after_return = False
    # Of a line that has begun: no end of a line is in them.
    parts: list[bytes] = []
    # A line has begun, even if nothing of it was read yet.
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
        # The range begins inside a line that is another's.
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
            yield _lines(b"".join((*parts, data[:end])))
            parts.clear()
        if end < len(data):
            parts.append(data[end:])
    # The last line goes on behind the range.
    while left <= 0 and (parts or begun):
        if ahead:
            data, ahead = ahead, b""
        else:
            data = read(min(chunk, _TAIL))
        end = _first_end(data)
        parts.append(data if end < 0 else data[:end])
        if end >= 0 or not data:
            if end >= 0 or any(parts):
                yield [b"".join(parts).decode("utf-8", "replace")]
            return
    if parts:
        yield [b"".join(parts).decode("utf-8", "replace")]


def _lines(block: bytes) -> list[str]:
    """Split what ends with the end of a line."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # Not line by line: no character that is no end of a line has a newline's byte in it, whole or malformed.
    lines = block.decode("utf-8", "replace").split("\n")
    lines.pop()
    return lines


def _first_end(data: bytes) -> int:
    newline = data.find(b"\n")
    carriage_return = data.find(b"\r", 0, newline if newline >= 0 else len(data))
    return newline if carriage_return < 0 else carriage_return
