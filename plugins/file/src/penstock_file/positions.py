"""Positions: how far files were read, and the small file in which that is kept across relaunches.

Owns their form on disk. A position names its file by inode and by a digest of its first bytes: a path may lead to
another file by now, and an inode may have been given to another. Runs on the receiver's thread.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cattrs
from attrs import field, frozen
from attrs.validators import ge

from penstock.helpers import atomic_write

# How many of a file's first bytes it is known by.
_HEAD_BYTES = 256


@frozen
class Head:
    """By what a file is known whose inode may be another's by now.

    Attributes:
        length: of its first bytes.
        digest: of them.
    """

    length: int = 0
    digest: str = ""

    def fits(self, descriptor: int) -> bool:
        """Say whether an open file begins so."""
        return self == _head(descriptor, self.length)

    def grown(self, descriptor: int, offset: int) -> Head:
        """The head of a file that was read up to an offset: longer, if it was short."""
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
        path: where it was seen last.
        inode: its number in its file system.
        offset: what is before was read, and accepted by the driver.
        skipping: the offset lies inside a line that is left out.
        head: how it begins.
    """

    path: str
    inode: int
    offset: int = field(default=0, validator=ge(0))
    skipping: bool = False
    head: Head = Head()


def load(offset_file: str) -> list[Position] | None:
    """The positions that were saved; ``None`` when none were.

    Raises:
        ValueError: the file is there and holds something else.
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
        return cattrs.structure(saved["files"], list[Position])
    except (ValueError, TypeError, KeyError, cattrs.BaseValidationError) as error:
        raise _not_ours(offset_file, error) from error


def save(offset_file: str, positions: Sequence[Position]) -> None:
    """Replace what was saved, in one step: who reads it finds the old or the new.

    Raises:
        OSError: it cannot be written; what was saved before is still there.
    """
    with atomic_write(Path(offset_file), sync=True) as unfinished:
        unfinished.write_text(json.dumps({"files": cattrs.unstructure(list(positions))}), encoding="utf-8")


def _not_ours(offset_file: str, error: Exception) -> ValueError:
    return ValueError(
        f"{offset_file} does not hold offsets ({type(error).__name__}): name another offset_file, or remove it to "
        "begin anew"
    )
