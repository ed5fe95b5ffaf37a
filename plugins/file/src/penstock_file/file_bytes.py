"""``FileBytes``: the bytes of one version of a file, decompressed if its file name says that it is compressed.

Bytes appended after the version was listed are not read. Runs in the tasks of a batch.
"""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from pyarrow import fs

from penstock_file.pieces import FilePiece, codec_of

# Bytes read at a time from a local and from a remote file system.
_NEAR_BYTES = 1 << 17
_FAR_BYTES = 8 << 20


class FileBytes:
    """An open version of a file.

    Args:
        filesystem: the file system of the path.
        piece: piece at which reading starts; reading may continue past the piece's stop to the end of the version.

    Raises:
        OSError: the file cannot be opened, or is shorter than the version.
    """

    def __init__(self, filesystem: fs.FileSystem, piece: FilePiece) -> None:
        self._filesystem = filesystem
        self._piece = piece
        self._codec = codec_of(piece.path)
        self._file = filesystem.open_input_file(piece.path)
        try:
            # One byte before the start shows whether a line begins there.
            self._position = max(piece.start - 1, 0)
            self._check_length(self._file.size())
            self._stream = self._opened()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> FileBytes:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()

    @property
    def is_compressed(self) -> bool:
        """Whether the file is compressed; such a file is read as a whole."""
        return self._codec is not None

    def read(self, count: int) -> bytes:
        """Read ``count`` bytes, fewer at the end.

        Raises:
            OSError: the file cannot be read.
        """
        data: bytes = self._stream.read(count)
        self._position += len(data)
        while data and len(data) < count:
            more: bytes = self._stream.read(count - len(data))
            self._position += len(more)
            if not more:
                break
            data += more
        if not data and self._codec is None:
            self._check_length(self._position)
        return data

    def as_file(self) -> io.BufferedReader:
        """Return the version as an open binary file, for user code."""
        at_once = _NEAR_BYTES if self._is_near else _FAR_BYTES
        if self._codec is not None:
            return io.BufferedReader(_Window(self._stream, None, self._piece.path), at_once)
        return io.BufferedReader(_Window(self._file, self._piece.size, self._piece.path), at_once)

    @property
    def _is_near(self) -> bool:
        return isinstance(self._filesystem, fs.LocalFileSystem)

    def _opened(self) -> Any:
        stream = self._file.get_stream(self._position, self._piece.size - self._position)
        if not self._is_near:
            stream = pa.BufferedInputStream(stream, _FAR_BYTES)
        return stream if self._codec is None else pa.CompressedInputStream(stream, self._codec)

    def _check_length(self, length: int) -> None:
        if length < self._piece.size:
            raise OSError(f"it had {self._piece.size} bytes when it was selected and has {length} bytes now")


class _Window(io.RawIOBase):
    """A pyarrow file as a Python file that ends at an offset.

    Args:
        native: the pyarrow file; closing the window does not close it.
        size: offset of the end. ``None``: the end of the native file, which then is not seekable.
        name: value of the Python file's ``name``.
    """

    def __init__(self, native: Any, size: int | None, name: str) -> None:
        self._native = native
        self._size = size
        self.name = name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._size is not None

    def tell(self) -> int:
        return int(self._native.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if self._size is None:
            raise io.UnsupportedOperation("a compressed file is not seekable")
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._native.seek(min(base + offset, self._size))
        return self.tell()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._size is not None:
            view = view[: max(self._size - self.tell(), 0)]
        data = self._native.read(len(view))
        view[: len(data)] = data
        return len(data)
