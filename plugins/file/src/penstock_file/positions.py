"""Positions: how far files were read, and the offset file that saves this across relaunches of the receiver.

A position identifies its file by inode and by a digest of its first bytes: a path may lead to another file by now, and
an inode may have been reused.
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
    """Identifies a file whose inode may have been reused.

    Attributes:
        length: number of first bytes.
        digest: SHA-256 of them.
    """

    length: int = 0
    digest: str = ""

    def fits(self, descriptor: int) -> bool:
        """Return whether an open file begins with these bytes."""
        return self == _head(descriptor, self.length)

    def grown(self, descriptor: int, offset: int) -> Head:
        """Return the head of the file after it was read up to an offset: longer, if it was short."""
        length = min(offset, _HEAD_BYTES)
        return self if length <= self.length else _head(descriptor, length)


def _head(descriptor: int, length: int) -> Head:
    if not length:
        return Head()
    first = os.pread(descriptor, length, 0)
    return Head(len(first), hashlib.sha256(first).hexdigest())


@frozen
class Position:
    """How far a file was read.

    Attributes:
        path: the last known path.
        inode: inode number.
        offset: bytes before it were read and stored.
        skipping: whether the offset is inside a line that is to be skipped.
        head: identifies the file.
    """

    path: str
    inode: int
    offset: int = field(default=0, validator=ge(0))
    skipping: bool = False
    head: Head = Head()


def load(offset_file: str) -> list[Position] | None:
    """Load the saved positions; ``None`` when the offset file does not exist.

    Raises:
        ValueError: the file holds something else.
        OSError: it cannot be read.
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
        OSError: the file cannot be written; the positions saved before are still there.
    """
    with atomic_write(Path(offset_file), sync=True) as unfinished:
        unfinished.write_text(json.dumps({"files": unstructure(list(positions))}), encoding="utf-8")


def _not_ours(offset_file: str, error: Exception) -> ValueError:
    return ValueError(
        f"offset_file {offset_file} does not hold offsets ({type(error).__name__}): name another one, or delete "
        "it to start without offsets"
    )
