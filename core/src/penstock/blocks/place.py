"""Places: a directory or a file, as a path of this host or as a URI of a file system that ``pyarrow.fs`` knows.

Owns how the two are told apart, and the connections to those file systems, one a directory in each process. May be
asked on any thread.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.errors import ConfigurationError, text_of

if TYPE_CHECKING:
    from pyarrow import fs


def absolute(directory: str) -> str:
    """A directory in full: an absolute path, also for a ``file:`` URI; else a URI, ``s3a:`` as ``s3:``."""
    scheme, colon, rest = directory.partition(":")
    if colon and scheme.lower() == "file":
        path = rest.removeprefix("//localhost") if rest.startswith("//localhost/") else rest
        return unquote(f"/{path.strip('/')}")
    if is_remote(directory):
        scheme = "s3" if scheme.lower() == "s3a" else scheme
        return f"{scheme}:{rest.rstrip('/')}"
    return str(Path(directory).absolute())


def is_remote(place: str) -> bool:
    """Say whether a place is a URI, and no path."""
    return "://" in place


@lru_cache(maxsize=256)
def connect(directory: str) -> tuple[fs.FileSystem, str]:
    """The file system of a directory that is a URI, and the path there.

    Raises:
        ConfigurationError: no file system answers to it.
    """
    import pyarrow as pa
    from pyarrow import fs  # only those need it whose blocks are remote

    try:
        system, path = fs.FileSystem.from_uri(directory)
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = (text_of(error).splitlines() or [type(error).__name__])[0]
        raise ConfigurationError(f"no file system for {directory!r}: {reason}") from error
    return system, str(path)
