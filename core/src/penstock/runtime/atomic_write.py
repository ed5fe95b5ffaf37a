"""Atomic writes: a file appears under its name whole, or not at all."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PARTIAL = re.compile(r"\..+\.[0-9a-f]{8}\.partial")


@contextmanager
def atomic_write(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Write a file under a temporary name, then move it to its own.

    The directory must exist. Yields the temporary path: hidden, in the same directory, empty, and private to this user.
    A reader finds the old file or the new one, never a part; if the block raises, the old file stays. Writers do not
    mix their bytes; the last one wins. With ``sync`` the disk has the file's bytes and its name: it survives a
    power failure. Raises OSError if the file cannot be written or moved.
    """
    partial = path.with_name(partial_name(path.name))
    try:
        os.close(private(partial, os.O_WRONLY | os.O_CREAT))
        yield partial
        if sync:
            fsync(partial)
        partial.replace(path)
        if sync:
            fsync(path.parent)
    except BaseException:
        # A failure to clean up must not hide the original error.
        with suppress(OSError):
            partial.unlink()
        raise


def private(path: str | Path, flags: int) -> int:
    """An ``opener`` for ``open``: only this user can read a file that it creates."""
    return os.open(path, flags, 0o600)


def partial_name(name: str) -> str:
    """A temporary name for a file that is written to replace ``name``."""
    return f".{name}.{secrets.token_hex(4)}.partial"


def is_partial(name: str) -> bool:
    """Whether a file name is the temporary name of an atomic write, which remains if the writer is killed."""
    return _PARTIAL.fullmatch(name) is not None


def fsync(path: Path) -> None:
    """Return when the disk has a file's bytes, or a directory's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
