"""Files and directories that only this user can open, whatever the umask; files appear whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import stat
import tempfile
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


def make_private(path: Path) -> None:
    """Create a directory, and its missing parents, that only this user can enter. An existing directory is kept."""
    if not path.parent.exists():
        make_private(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def own_directory(path: Path, variable: str = "TMPDIR") -> Path:
    """Create a private directory where another user may have created it first.

    Raises PermissionError, with advice to set ``variable``, if it is a link or belongs to another user.
    """
    make_private(path)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user: set {variable} to a folder of your own")
    path.chmod(0o700)
    return path


def temporary_directory() -> Path:
    """This user's own directory below the temporary directory that all users share."""
    return own_directory(Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}")


def executor_directory() -> Path:
    """The first local directory of this executor, which Spark deletes when the executor ends in order.

    Outside of Spark's Python workers it is ``temporary_directory``.
    """
    first = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return Path(first) if first else temporary_directory()
