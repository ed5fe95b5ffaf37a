"""Remote directories in which Arrow's local file system stands for all others."""

from __future__ import annotations

from pathlib import Path

from penstock.storage.directory import Directory, LocalDirectory, RemoteDirectory
from penstock.storage.uri import connect, is_remote


def directory_of(location: str) -> Directory:
    """Like ``Directory.of``, but a ``file:`` URI is a remote directory."""
    return RemoteDirectory(*connect(location), location) if is_remote(location) else LocalDirectory(Path(location))
