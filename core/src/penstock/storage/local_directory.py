"""``LocalDirectory``: a folder on a disk of this machine, or on one that is mounted like it.

Owns the system calls that make a file durable. Runs on whatever thread calls.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from penstock.storage.directory import Appender, Directory, Durability

# Files that are not finished begin with this.
_HIDDEN = "."


class LocalDirectory(Directory):
    """A local folder.

    Args:
        path: of it; made when the first file is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def location(self, name: str = "") -> str:
        """Its path."""
        return str(self._path / name)

    def child(self, name: str) -> LocalDirectory:
        """A folder in this one."""
        return LocalDirectory(self._path / name)

    def names(self) -> list[str]:
        """The files in it, sorted."""
        try:
            with os.scandir(self._path) as entries:
                return sorted(entry.name for entry in entries if entry.is_file() and not entry.name.startswith(_HIDDEN))
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        """A whole file."""
        return (self._path / name).read_bytes()

    def write(self, name: str, data: bytes, *, sync: bool = False) -> None:
        """Write a whole file, which appears whole or not at all."""
        self._path.mkdir(parents=True, exist_ok=True)
        unfinished = self._path / f"{_HIDDEN}{name}.unfinished"
        try:
            with unfinished.open("wb") as file:
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            unfinished.replace(self._path / name)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        if sync:
            sync_folder(self._path)

    def delete(self, name: str) -> None:
        """Delete a file; one that is not there is fine."""
        (self._path / name).unlink(missing_ok=True)

    def append(self, name: str) -> Appender:
        """Begin a new file; one that is there is not touched, that is a FileExistsError."""
        self._path.mkdir(parents=True, exist_ok=True)
        return _LocalAppender((self._path / name).open("xb"), self._path)


class _LocalAppender(Appender):
    def __init__(self, file: BinaryIO, folder: Path) -> None:
        self._file, self._folder = file, folder
        self._is_named = False

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def commit(self, durability: Durability) -> None:
        if durability is Durability.NONE:
            return
        self._file.flush()
        if durability is Durability.FSYNC:
            os.fsync(self._file.fileno())
            if not self._is_named:
                # A file whose name is lost is lost.
                sync_folder(self._folder)
                self._is_named = True

    def close(self) -> None:
        self._file.close()


def sync_folder(path: Path) -> None:
    """Return when the disk has the names in a folder, and the folder's own."""
    for folder in (path, path.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
