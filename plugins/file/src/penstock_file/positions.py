"""Positions: the offsets up to which files were read, and the offset file that saves them for a relaunched receiver.

A position identifies its file by inode and by a digest of its first bytes, because a path may lead to another file by
now, and an inode may have been reused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import ge

from penstock.spi import atomic_write, structure, unstructure

# First bytes of a file that identify it.
_HEAD_BYTES = 256


@frozen
class Head:
    """The first bytes of a file, which identify it even if its inode has been reused.

    Attributes:
        length: number of first bytes.
        digest: their SHA-256.
    """

    length: int = 0
    digest: str = ""

    def fits(self, descriptor: int) -> bool:
        """Return whether an open file begins with these bytes."""
        return self == _head(descriptor, self.length)

    def grown(self, descriptor: int, offset: int) -> Head:
        """Return the head after the file was read up to an offset: a short head becomes longer."""
        length = min(offset, _HEAD_BYTES)
        return self if length <= self.length else _head(descriptor, length)


def _head(descriptor: int, length: int) -> Head:
    if not length:
        return Head()
    first = os.pread(descriptor, length, 0)
    return Head(len(first), hashlib.sha256(first).hexdigest())


@frozen
class Position:
    """The offset up to which a file was read.

    Attributes:
        path: the last known path.
        inode: inode number.
        offset: bytes before it have been read and stored.
        skipping: whether the offset is inside a line that must be skipped.
        head: the first bytes, which identify the file.
    """

    path: str
    inode: int
    offset: int = field(default=0, validator=ge(0))
    skipping: bool = False
    head: Head = Head()


def load(offset_file: str) -> list[Position] | None:
    """Load the saved positions; ``None`` when the offset file does not exist.

    Raises:
        ValueError: the file does not contain offsets.
        OSError: the file cannot be read.
    """
    try:
        text = Path(offset_file).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise _not_ours(offset_file, error) from error
    try:
        saved: dict[str, Any] = json.loads(text)
        return structure(saved["files"], list[Position])
    except (ValueError, TypeError, KeyError) as error:
        raise _not_ours(offset_file, error) from error


def save(offset_file: str, positions: Sequence[Position]) -> None:
    """Save positions atomically.

    Raises:
        OSError: the file cannot be written; it still contains the previous positions.
    """
    with atomic_write(Path(offset_file), sync=True) as unfinished:
        unfinished.write_text(json.dumps({"files": unstructure(list(positions))}), encoding="utf-8")


def _not_ours(offset_file: str, error: Exception) -> ValueError:
    return ValueError(
        f"offset_file {offset_file} does not hold offsets ({type(error).__name__}): name another one, or delete "
        "it to start without offsets"
    )
