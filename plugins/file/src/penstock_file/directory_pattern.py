"""``DirectoryPattern``: the directory of a file stream, or the directories that its pattern matches.

It turns a path, URI or pattern into a file system and listings. ``listing`` and ``again`` run on the lister's thread
and block as long as the file system does.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from penstock.spi import absolute_location, connect, is_remote, text_of
from penstock_file.errors import DirectoryMissingError

_MAGIC = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")

#: ``pyarrow.fs.FileInfo`` of regular files.
Listing = Sequence[Any]


class DirectoryPattern:
    """A directory, or a pattern of directories: ``*``, ``?``, ``[...]`` and ``{a,b}`` in any component.

    A ``*`` or ``?`` does not match a dot at the beginning of a name, as in shells.

    Args:
        directory: a local path, or a URI of a file system that Arrow supports.

    Raises:
        ConfigurationError: Arrow has no file system for the URI.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        uri, root = _split_uri(directory)
        #: Prefix of a path in names for users, such as ``s3://``.
        self.prefix = ""
        self.filesystem: fs.FileSystem = fs.LocalFileSystem()
        if uri is not None:
            self.filesystem, base = connect(uri)
            root = f"{base.rstrip('/')}/{root}" if root else base
            self.prefix = _prefix(uri, base)
        self._patterns = [_components(pattern) for pattern in _expand(root)]
        self._is_pattern = len(self._patterns) > 1 or any(magic for _, magic in self._patterns)

    def __str__(self) -> str:
        return self._directory

    def name(self, path: str) -> str:
        """The name of a path for messages and user functions."""
        return self.prefix + path

    def listing(self) -> Listing:
        """List the files directly in the directories.

        Raises:
            DirectoryMissingError: the directory does not exist.
            OSError: one of the listings failed.
        """
        directories = dict.fromkeys(path for pattern in self._patterns for path in self._matches(*pattern))
        if not directories:
            raise DirectoryMissingError(self._why_missing())
        files: list[Any] = []
        for directory in directories:
            # A directory may have vanished since the pattern matched it; then it has no files.
            selector = fs.FileSelector(directory, allow_not_found=self._is_pattern)
            infos = self._asked(selector)
            files += [info for info in infos if info.type is fs.FileType.File]
        return files

    def again(self, paths: Sequence[str]) -> Listing:
        """List some files again, without those that are gone.

        Raises:
            OSError: the file system failed.
        """
        return [info for info in self._asked(list(paths)) if info.type is fs.FileType.File]

    def _asked(self, what: Any) -> list[Any]:
        try:
            infos: list[Any] = self.filesystem.get_file_info(what)
        except FileNotFoundError as error:
            raise DirectoryMissingError(self._why_missing()) from error
        except pa.ArrowException as error:
            raise OSError(text_of(error)) from error
        return infos

    def _matches(self, base: str, magic: tuple[str, ...]) -> list[str]:
        """The directories that a pattern matches."""
        if not magic:
            return [base] if self._is_directory(base) else []
        expression = re.compile(_regex(magic[0]))
        hidden = magic[0].startswith(".")
        selector = fs.FileSelector(base, allow_not_found=True)
        names = [
            info.base_name
            for info in self._asked(selector)
            if info.type is fs.FileType.Directory and (hidden or not info.base_name.startswith("."))
        ]
        directories = sorted(f"{base.rstrip('/')}/{name}" for name in names if expression.match(name))
        # Match the remaining components below each directory.
        return [path for directory in directories for path in self._matches(*_joined(directory, magic[1:]))]

    def _is_directory(self, path: str) -> bool:
        (info,) = self._asked([path])
        return info.type is fs.FileType.Directory

    def _why_missing(self) -> str:
        if self._is_pattern:
            return f"no directory matches {self._directory}"
        (base, _), *_ = self._patterns
        try:
            (info,) = self.filesystem.get_file_info([base])
        except (OSError, pa.ArrowException):
            return f"there is no directory {self._directory}"
        what = "is no directory" if info.type is not fs.FileType.NotFound else "does not exist"
        return f"{self._directory} {what}"


def _split_uri(directory: str) -> tuple[str | None, str]:
    """Split into the URI to connect to and the pattern below it; for a local path, ``None`` and the path."""
    # A path that exists may look like a URI.
    location = os.path.abspath(directory) if os.path.exists(directory) else absolute_location(directory)  # noqa: PTH100, PTH110  # may be a pattern
    if not is_remote(location):
        return None, location
    scheme, _, rest = location.partition(":")
    rest, question, query = rest.partition("?") if "=" in rest.partition("?")[2] else (rest, "", "")
    magic = _MAGIC.search(rest)
    cut = len(rest) if magic is None else rest.rfind("/", 0, magic.start()) + 1
    return f"{scheme}:{rest[:cut].rstrip('/') or rest[:cut]}{question}{query}", unquote(rest[cut:].strip("/"))


def _prefix(uri: str, base: str) -> str:
    """The prefix that turns a path into a URI."""
    plain = uri.partition("?")[0]
    if base and plain.endswith(base):
        return plain[: -len(base)]
    return f"{plain.partition(':')[0]}://"


def _expand(pattern: str) -> list[str]:
    """One pattern per alternative in the braces."""
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    choices = (pattern[: braces.start()] + choice + pattern[braces.end() :] for choice in braces[1].split(","))
    return list(dict.fromkeys(expanded for choice in choices for expanded in _expand(choice)))


def _components(pattern: str) -> tuple[str, tuple[str, ...]]:
    """The directory above the first component with a pattern, and the remaining components."""
    return _joined("", tuple(pattern.rstrip("/").split("/")) if pattern.strip("/") else ("",))


def _joined(base: str, components: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    plain = 0
    while plain < len(components) and not _MAGIC.search(components[plain]):
        plain += 1
    path = "/".join([*([base] if base else []), *components[:plain]])
    return path or "/", components[plain:]


def _regex(component: str) -> str:
    return fnmatch.translate(component.replace("[^", "[!"))
