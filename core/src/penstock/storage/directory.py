"""``Directory``: a folder that outlives the driver, on whatever file system.

Owns what the recovery asks of a file system, and the choice of one by the path. Never makes a folder before something
is written to it, never keeps a file open that it was not asked to. Runs on whatever thread calls.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from enum import Enum
from pathlib import Path
from urllib.parse import unquote

from penstock.errors import ConfigurationError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


class Durability(Enum):
    """What a commit waits for.

    ``NONE``: nothing; what was written may be in this process still. ``FLUSH``: the operating system has it; it
    outlives the process. ``FSYNC``: the disk has it; it outlives the machine.
    """

    NONE = "none"
    FLUSH = "flush"
    FSYNC = "fsync"


class Appender(ABC):
    """A file that is being written, piece by piece. For one thread at a time."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Add bytes.

        Raises:
            OSError: they may be there in part.
        """

    @abstractmethod
    def commit(self, durability: Durability) -> None:
        """Make durable what was written.

        Raises:
            OSError: it may be so or not.
        """

    @abstractmethod
    def close(self) -> None:
        """End the file; what was written reaches the operating system at least. Harmless when repeated.

        Raises:
            OSError: what was written and not committed may be lost.
        """


class Directory(ABC):
    """A folder of files. Every method raises an OSError that names the file when the file system fails."""

    #: Whether what was committed is there before the file is closed.
    can_append: bool = True

    @staticmethod
    def of(path_or_uri: str) -> Directory:
        """The folder at a path.

        Args:
            path_or_uri: a local path or ``file:`` URI, or a URI of a file system that Arrow knows (``hdfs:``, ``s3:``,
                ``gs:``, ``abfs:`` …; ``s3a:`` is read as ``s3:``).

        Raises:
            ConfigurationError: no file system answers to it.
        """
        # These are made of this file's classes.
        from penstock.storage.arrow_directory import ArrowDirectory
        from penstock.storage.local_directory import LocalDirectory

        if not path_or_uri.strip():
            raise ConfigurationError("a directory is needed, and the path is empty")
        match = _SCHEME.match(path_or_uri)
        if match is None:
            return LocalDirectory(Path(os.path.abspath(path_or_uri)))  # noqa: PTH100  # links stay as they are
        scheme, rest = match[1].lower(), path_or_uri[match.end() :]
        if scheme == "file":
            path = rest.removeprefix("//localhost") if rest.startswith("//localhost/") else rest
            return LocalDirectory(Path(unquote(f"/{path.lstrip('/')}")))
        return ArrowDirectory.connect(f"{'s3' if scheme == 's3a' else scheme}:{rest}")

    @abstractmethod
    def location(self, name: str = "") -> str:
        """Where the folder, or a file in it, is; for messages."""

    @abstractmethod
    def child(self, name: str) -> Directory:
        """A folder in this one."""

    @abstractmethod
    def names(self) -> list[str]:
        """The files in it, sorted; none when there is no such folder. Folders and unfinished files are left out."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A whole file."""

    @abstractmethod
    def write(self, name: str, data: bytes, *, sync: bool = False) -> None:
        """Write a whole file, in place of one that is there.

        On a local disk it appears whole or not at all; elsewhere it is one put.

        Args:
            name: of the file.
            data: all of it.
            sync: return only when the disk has it, where the file system is local.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file; one that is not there is fine."""

    @abstractmethod
    def append(self, name: str) -> Appender:
        """Begin a new file."""
