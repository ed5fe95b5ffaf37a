"""The files of one directory of the block log, on this host or on any file system that ``pyarrow.fs`` knows.

Owns the difference between the two: how a file appears whole or not at all, how durable it is then, how files are
listed and deleted. Never names one. Runs on whatever thread stores, and on those of the driver that delete.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from penstock.blocks import block_file, place

#: What a file is called until it is whole.
PARTIAL = ".partial"


class LogFiles(Protocol):
    """The files of a directory."""

    def put(self, name: str, table: pa.Table) -> tuple[int, int]:
        """Write a file in Arrow's IPC format; the directory is made when it is not there.

        Returns:
            Its size in bytes, and their checksum.

        Raises:
            OSError: it could not be written; nothing is left behind.
        """
        ...

    def delete(self, name: str) -> bool:
        """Delete a file, and say whether there was one.

        Raises:
            OSError: it could not be deleted.
        """
        ...

    def move(self, name: str, folder: str) -> bool:
        """Move a file into a folder of this directory, and say whether there was one; the folder is made.

        Raises:
            OSError: it could not be moved.
        """
        ...

    def names(self) -> list[str]:
        """The names of the regular files that are there; none when there is no directory.

        Raises:
            OSError: they could not be listed.
        """
        ...


def files_of(directory: str, durability: str) -> LogFiles:
    """The files of a directory: a path of this host, or a URI.

    Raises:
        ConfigurationError: no file system answers to the URI.
    """
    return RemoteFiles(directory) if place.is_remote(directory) else LocalFiles(Path(directory), durability)


class LocalFiles:
    """Files of this host.

    Args:
        directory: made when the first is written.
        durability: ``fsync`` has them survive a loss of power; else the operating system has them, no more is known.
    """

    def __init__(self, directory: Path, durability: str) -> None:
        self._directory, self._syncs = directory, durability == "fsync"

    def put(self, name: str, table: pa.Table) -> tuple[int, int]:
        """Write a file under another name, then give it its own."""
        self._make_directory()
        path = self._directory / name
        partial = path.with_suffix(PARTIAL)
        try:
            with partial.open("wb") as file:
                written = block_file.write_summed(table, file)
                if self._syncs:
                    file.flush()
                    os.fsync(file.fileno())
            partial.replace(path)
            if self._syncs:
                _sync(self._directory)
        except BaseException:
            # What comes of it must not hide why.
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
        return written

    def delete(self, name: str) -> bool:
        """Delete a file, and say whether there was one."""
        try:
            (self._directory / name).unlink()
        except FileNotFoundError:
            return False
        return True

    def move(self, name: str, folder: str) -> bool:
        """Move a file into a folder of this directory, and say whether there was one."""
        (self._directory / folder).mkdir(exist_ok=True)
        try:
            (self._directory / name).replace(self._directory / folder / name)
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """The names of the regular files that are there."""
        try:
            with os.scandir(self._directory) as entries:
                return [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def _make_directory(self) -> None:
        missing = [each for each in (self._directory, *self._directory.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            if self._syncs:
                _sync(each.parent)


class RemoteFiles:
    """Files of another file system. One put each: stores of objects show them when they are whole.

    Args:
        directory: its URI.

    Raises:
        ConfigurationError: no file system answers to it.
    """

    def __init__(self, directory: str) -> None:
        self._system, self._path = place.connect(directory)
        self._made = False

    def put(self, name: str, table: pa.Table) -> tuple[int, int]:
        """Write a file; it is as durable as its file system has it once it is closed."""
        if not self._made:
            self._system.create_dir(self._path)
            self._made = True
        path = f"{self._path}/{name}"
        try:
            with self._system.open_output_stream(path, compression=None) as file:
                return block_file.write_summed(table, file)
        except BaseException:
            # Closing may have made a whole file of a part.
            with contextlib.suppress(OSError, pa.ArrowException):
                self._system.delete_file(path)
            self._made = False
            raise

    def delete(self, name: str) -> bool:
        """Delete a file, and say whether there was one."""
        try:
            self._system.delete_file(f"{self._path}/{name}")
        except FileNotFoundError:
            return False
        return True

    def move(self, name: str, folder: str) -> bool:
        """Move a file into a folder of this directory, and say whether there was one."""
        self._system.create_dir(f"{self._path}/{folder}")
        try:
            self._system.move(f"{self._path}/{name}", f"{self._path}/{folder}/{name}")
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """The names of the regular files that are there."""
        from pyarrow import fs

        infos = self._system.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return [info.base_name for info in infos if info.type is fs.FileType.File]


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
