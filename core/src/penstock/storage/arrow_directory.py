"""``ArrowDirectory``: a folder on a file system that Arrow reaches: HDFS, S3, GCS, Azure.

Owns the connection. Never counts on a flush: object stores have none, and Arrow's for HDFS reaches nobody else, so a
file is there once it is closed. Runs on whatever thread calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyarrow import fs

from penstock.errors import ConfigurationError, text_of
from penstock.storage.directory import Appender, Directory, Durability


class ArrowDirectory(Directory):
    """A folder that Arrow reaches.

    Args:
        filesystem: has it.
        path: in there.
        uri: how people call it.
    """

    can_append = False

    def __init__(self, filesystem: fs.FileSystem, path: str, uri: str) -> None:
        self._filesystem, self._path, self._uri = filesystem, path.rstrip("/"), uri.rstrip("/")
        self._is_made = False

    @classmethod
    def connect(cls, uri: str) -> ArrowDirectory:
        """The folder at a URI.

        Raises:
            ConfigurationError: no file system answers to it.
        """
        try:
            filesystem, path = fs.FileSystem.from_uri(uri)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise ConfigurationError(f"no file system for {uri!r}: {_first_line(error)}") from error
        return cls(filesystem, path, uri.partition("?")[0])

    def location(self, name: str = "") -> str:
        """Its URI."""
        return f"{self._uri}/{name}" if name else self._uri

    def child(self, name: str) -> ArrowDirectory:
        """A folder in this one."""
        return ArrowDirectory(self._filesystem, f"{self._path}/{name}", f"{self._uri}/{name}")

    def names(self) -> list[str]:
        """The files in it, sorted."""
        with self._errors():
            found = self._filesystem.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return sorted(info.base_name for info in found if info.type is fs.FileType.File)

    def read(self, name: str) -> bytes:
        """A whole file."""
        with self._errors(name), self._filesystem.open_input_file(f"{self._path}/{name}") as file:
            data: bytes = file.read()
            return data

    def write(self, name: str, data: bytes, *, sync: bool = False) -> None:
        """Write a whole file, in one put."""
        appender = self.append(name)
        try:
            appender.write(data)
            appender.close()
        except BaseException:
            # A part of it must not stay under that name.
            with suppress(OSError):
                appender.close()
            with suppress(OSError):
                self.delete(name)
            raise

    def delete(self, name: str) -> None:
        """Delete a file; one that is not there is fine."""
        with self._errors(name), suppress(FileNotFoundError):
            self._filesystem.delete_file(f"{self._path}/{name}")

    def append(self, name: str) -> Appender:
        """Begin a new file, in place of one that is there."""
        with self._errors(name):
            if not self._is_made:
                self._filesystem.create_dir(self._path, recursive=True)
                self._is_made = True
            # Whatever the name ends in: the bytes as they are.
            stream = self._filesystem.open_output_stream(f"{self._path}/{name}", compression=None)
        return _ArrowAppender(stream, self, name)

    @contextmanager
    def _errors(self, name: str = "") -> Iterator[None]:
        """Make every error of Arrow's an OSError that says where."""
        try:
            yield
        except OSError:
            raise
        except (ValueError, pa.ArrowException) as error:
            raise OSError(f"{self.location(name)}: {_first_line(error)}") from error


class _ArrowAppender(Appender):
    def __init__(self, stream: Any, directory: ArrowDirectory, name: str) -> None:
        self._stream, self._directory, self._name = stream, directory, name

    def write(self, data: bytes) -> None:
        with self._directory._errors(self._name):
            self._stream.write(data)

    def commit(self, durability: Durability) -> None:
        if durability is not Durability.NONE:
            with self._directory._errors(self._name):
                self._stream.flush()

    def close(self) -> None:
        with self._directory._errors(self._name):
            if not self._stream.closed:
                self._stream.close()


def _first_line(error: BaseException) -> str:
    return text_of(error).splitlines()[0] if text_of(error) else type(error).__name__
