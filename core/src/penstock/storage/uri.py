"""Locations: a directory or file as an absolute local path, or as a URI of a file system that ``pyarrow.fs`` knows.

Thread-safe. Python workers import this module: ``pyarrow.fs`` takes 0.15 s and is imported only to connect.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.errors import ConfigurationError
from penstock.runtime.tracebacks import first_line

if TYPE_CHECKING:
    from pyarrow import fs

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# A path on Hadoop's default file system (``fs.defaultFS``), if that is HDFS.
_DEFAULT_HDFS = "hdfs:///"


def absolute_location(text: str, *, unquotes: bool = True) -> str:
    """Normalize a user's text: a path becomes absolute, a ``file:`` URI a path, ``s3a:`` becomes ``s3:``.

    ``unquotes`` says whether ``file:`` URIs are percent-encoded. Empty text raises ``ConfigurationError``.
    """
    if not text.strip():
        raise ConfigurationError("the path of a directory is empty: give a path or a URI")
    match = _SCHEME.match(text)
    if match is None:
        return os.path.abspath(text)  # noqa: PTH100  # does not resolve links
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme == "file":
        if rest.startswith("//localhost/"):
            rest = rest.removeprefix("//localhost")
        path = f"/{rest.strip('/')}"
        return unquote(path) if unquotes else path
    return f"{'s3' if scheme == 's3a' else scheme}:{rest.rstrip('/')}"


def location_of_hadoop(uri: str) -> str:
    """Normalize a URI as Hadoop prints it: Hadoop neither percent-encodes nor decodes."""
    return absolute_location(uri, unquotes=False)


def is_remote(location: str) -> bool:
    """Whether a normalized location is a URI of another file system, not a path of this host."""
    return _SCHEME.match(location) is not None


@lru_cache(maxsize=256)
def connect(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path in it; ``ConfigurationError`` if there is none. Connects once per URI."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        if uri.startswith(_DEFAULT_HDFS):
            # Arrow reads core-site.xml only for this host name, which it does not accept in a URI.
            return fs.HadoopFileSystem("default", port=0), unquote(uri.removeprefix("hdfs://"))
        system, path = fs.FileSystem.from_uri(uri)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ConfigurationError(
            f"no file system for {uri!r}: {first_line(error)}. Use a path, or a URI of a file system that Arrow "
            "reaches: file:, hdfs:, s3:, gs:, abfs:"
        ) from error
    return system, str(path)
