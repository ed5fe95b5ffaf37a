"""``Directory``: a directory of files on any file system, local or through ``pyarrow.fs``.

A directory is created when a file is written to it. Different threads may write different files.
"""

from __future__ import annotations

import math
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from penstock.runtime.private_files import atomic_write, fsync, is_partial, make_private, partial_name, private
from penstock.runtime.tracebacks import first_line
from penstock.storage import uri as uris


class Durability(Enum):
    """The guarantee of a commit.

    ``NONE``: nothing; the data may still be in this process. ``FLUSH``: the operating system has the data, which
    survives the process. ``FSYNC``: the disk has it, and it survives a power failure.
    """

    NONE = "none"
    FLUSH = "flush"
    FSYNC = "fsync"


class Appender:
    """A file that is being written record by record, by one thread at a time.

    ``errors`` turns the errors of the file system into OSErrors. ``sync_name`` returns when the disk has a local file's
    name; ``None`` for a remote file, which has no fsync.
    """

    def __init__(
        self,
        file: Any,
        errors: Callable[[], AbstractContextManager[None]] = nullcontext,
        sync_name: Callable[[], None] | None = None,
    ) -> None:
        self._file = file
        self._errors = errors
        self._sync_name = sync_name
        self._is_named = False

    def write(self, data: bytes) -> None:
        """Append bytes; after an OSError, part of them may have been written."""
        with self._errors():
            self._file.write(data)

    def commit(self, durability: Durability = Durability.FLUSH) -> None:
        """Make everything written so far durable; after an OSError, it is unknown whether it is."""
        if durability is Durability.NONE:
            return
        with self._errors():
            self._file.flush()
            if self._sync_name is not None and durability is Durability.FSYNC:
                os.fsync(self._file.fileno())
                if not self._is_named:
                    self._sync_name()
                    self._is_named = True

    def close(self) -> None:
        """Close the file; the operating system has all data then. Idempotent. An OSError may lose uncommitted data."""
        with self._errors():
            self._file.close()


class Directory(ABC):
    """A directory. Every method raises an OSError that names the file if the file system fails."""

    #: Whether committed data can be read before the file is closed.
    can_append: bool = True

    #: The number of the claim under which files are written; 0 without one.
    claim_number: int = 0

    @staticmethod
    def of(location: str) -> Directory:
        """Open the directory at a location; nothing is created. ``ConfigurationError`` for an unknown file system.

        The location is a local path or ``file:`` URI, or a URI of a file system that Arrow knows (``hdfs:``, ``s3:``,
        ``gs:``, ``abfs:`` …; ``s3a:`` is read as ``s3:``).
        """
        location = uris.absolute_location(location)
        if not uris.is_remote(location):
            return LocalDirectory(Path(location))
        return RemoteDirectory(*uris.connect(location), location.partition("?")[0])

    @abstractmethod
    def location(self, name: str = "") -> str:
        """The path or URI of the directory, or of a file in it."""

    @abstractmethod
    def child(self, name: str) -> Directory:
        """A subdirectory."""

    def names(self) -> list[str]:
        """The regular files in it, sorted, without hidden ones; none if the directory does not exist."""
        return [name for name in self.all_names() if not name.startswith(".")]

    @abstractmethod
    def all_names(self) -> list[str]:
        """``names`` and the hidden files."""

    @abstractmethod
    def changed_s(self) -> dict[str, float]:
        """Modification times of ``all_names``, in seconds since the epoch; infinity if unknown."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Read a whole file."""

    @abstractmethod
    def copy_to(self, name: str, path: Path) -> None:
        """Copy a file to a local path, which it replaces."""

    @abstractmethod
    def create(self, name: str, *, sync: bool = False) -> AbstractContextManager[BinaryIO]:
        """Write a whole file, which replaces one of the same name when the ``with`` block ends.

        If the block raises, an earlier file of that name stays. A local file appears whole or not at all; with ``sync``
        the disk has it and its name. A remote one is durable once closed; a reader may see a part of a new one before.
        """

    def write(self, name: str, data: bytes, *, sync: bool = False) -> None:
        """Write a whole file; see ``create``."""
        with self.create(name, sync=sync) as file:
            file.write(data)

    @abstractmethod
    def delete(self, name: str) -> bool:
        """Delete a file; return whether it existed."""

    @abstractmethod
    def move(self, name: str, folder: str) -> bool:
        """Move a file into a subdirectory, which is created; return whether the file existed."""

    def sync(self, known: Collection[str] = ()) -> set[str]:
        """Return the files below the directory when the disk has all, whoever wrote them; none of a remote directory.

        ``known`` files, the result of an earlier call, are not synced again: who replaces one syncs the new file.
        """
        return set()

    @abstractmethod
    def append(self, name: str) -> Appender:
        """Create a file to be written record by record."""

    def delete_partial(self) -> None:
        """Delete the temporary files of killed writers. Nobody may write to the directory meanwhile."""
        for name in filter(is_partial, self.all_names()):
            self.delete(name)


class LocalDirectory(Directory):
    """A directory on a disk of this host, or on one that is mounted like it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Directories whose entries may not be on disk yet. Another process may have created this one, and those above.
        self._unsynced = set(path.parents)

    def location(self, name: str = "") -> str:
        return str(self._path / name)

    def child(self, name: str) -> LocalDirectory:
        return LocalDirectory(self._path / name)

    def all_names(self) -> list[str]:
        try:
            with os.scandir(self._path) as entries:
                return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def changed_s(self) -> dict[str, float]:
        times = {}
        for name in self.all_names():
            # Another process may have deleted it.
            with suppress(FileNotFoundError):
                times[name] = (self._path / name).stat().st_mtime
        return times

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def copy_to(self, name: str, path: Path) -> None:
        shutil.copyfile(self._path / name, path)

    @contextmanager
    def create(self, name: str, *, sync: bool = False) -> Iterator[BinaryIO]:
        self._make()
        if sync:
            self._sync_parents()
        with atomic_write(self._path / name, sync=sync) as partial, partial.open("wb") as file:
            yield file

    def delete(self, name: str) -> bool:
        try:
            (self._path / name).unlink()
        except FileNotFoundError:
            return False
        return True

    def move(self, name: str, folder: str) -> bool:
        (self._path / folder).mkdir(mode=0o700, exist_ok=True)
        try:
            (self._path / name).replace(self._path / folder / name)
        except FileNotFoundError:
            return False
        return True

    def sync(self, known: Collection[str] = ()) -> set[str]:
        files: set[str] = set()
        for folder, _folders, names in os.walk(self._path):
            found = {f"{folder}/{name}" for name in names}
            for path in (*found.difference(known), folder):
                # Unneeded files are deleted meanwhile.
                with suppress(FileNotFoundError):
                    fsync(Path(path))
            files |= found
        if self._path.exists():
            self._sync_parents()
        return files

    def append(self, name: str) -> Appender:
        self._make()

        def sync_name() -> None:
            self._sync_parents()
            fsync(self._path)

        return Appender(open(self._path / name, "xb", opener=private), sync_name=sync_name)

    def _make(self) -> None:
        missing = self._path
        while not missing.exists():
            missing = missing.parent
            self._unsynced.add(missing)
        make_private(self._path)

    def _sync_parents(self) -> None:
        # Several threads may run this. A directory leaves the set after it was synced, so no thread returns too early.
        for folder in sorted(list(self._unsynced)):  # noqa: C414  # another thread may change the set
            # No process of this user has created the others.
            if folder.stat().st_uid == os.getuid():
                fsync(folder)
            self._unsynced.discard(folder)


class RemoteDirectory(Directory):
    """A directory on a file system that Arrow reaches: HDFS, S3, GCS, Azure. ``location`` is its URI.

    A file exists once it is closed: object stores have no flush, and other processes do not see what Arrow flushes to
    HDFS.
    """

    can_append = False

    def __init__(self, filesystem: Any, path: str, location: str) -> None:
        self._filesystem = filesystem
        self._path = path.rstrip("/")
        self._location = location.rstrip("/")
        self._exists = False

    def location(self, name: str = "") -> str:
        return f"{self._location}/{name}" if name else self._location

    def child(self, name: str) -> RemoteDirectory:
        return RemoteDirectory(self._filesystem, f"{self._path}/{name}", f"{self._location}/{name}")

    def all_names(self) -> list[str]:
        return sorted(self.changed_s())

    def changed_s(self) -> dict[str, float]:
        from pyarrow import fs

        with self._errors():
            infos = self._filesystem.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        files = [info for info in infos if info.type is fs.FileType.File]
        return {info.base_name: math.inf if info.mtime_ns is None else info.mtime_ns / 1e9 for info in files}

    def read(self, name: str) -> bytes:
        with self._errors(name), self._filesystem.open_input_file(f"{self._path}/{name}") as file:
            data: bytes = file.read()
            return data

    def copy_to(self, name: str, path: Path) -> None:
        from pyarrow import fs

        with self._errors(name):
            fs.copy_files(f"{self._path}/{name}", str(path), source_filesystem=self._filesystem)

    @contextmanager
    def create(self, name: str, *, sync: bool = False) -> Iterator[BinaryIO]:
        from pyarrow import fs

        with self._errors(name):
            exists = self._filesystem.get_file_info(f"{self._path}/{name}").type is fs.FileType.File
        # Closing may publish the part of a file that could not be written whole.
        written = partial_name(name) if exists else name
        stream = self._open(written)
        try:
            yield stream
            with self._errors(name):
                stream.close()
                if written != name:
                    self._filesystem.move(f"{self._path}/{written}", f"{self._path}/{name}")
        except BaseException:
            self._exists = False
            with suppress(OSError), self._errors(name):
                stream.close()
            with suppress(OSError):
                self.delete(written)
            raise

    def delete(self, name: str) -> bool:
        with self._errors(name):
            try:
                self._filesystem.delete_file(f"{self._path}/{name}")
            except FileNotFoundError:
                return False
        return True

    def move(self, name: str, folder: str) -> bool:
        with self._errors(name):
            self._filesystem.create_dir(f"{self._path}/{folder}", recursive=True)
            try:
                self._filesystem.move(f"{self._path}/{name}", f"{self._path}/{folder}/{name}")
            except FileNotFoundError:
                return False
        return True

    def append(self, name: str) -> Appender:
        return Appender(self._open(name), partial(self._errors, name))

    def _open(self, name: str) -> Any:
        with self._errors(name):
            if not self._exists:
                self._filesystem.create_dir(self._path, recursive=True)
            # After a failure the next write creates the directory again, because it may have been removed.
            self._exists = False
            # By default Arrow compresses files whose names end in .gz.
            stream = self._filesystem.open_output_stream(f"{self._path}/{name}", compression=None)
            self._exists = True
            return stream

    @contextmanager
    def _errors(self, name: str = "") -> Iterator[None]:
        """Turn the errors of Arrow into OSErrors that name the file."""
        try:
            yield
        except OSError:
            raise
        except (ValueError, pa.ArrowException) as error:
            raise OSError(f"{self.location(name)}: {first_line(error)}") from error
