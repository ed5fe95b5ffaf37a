"""Directories that only this user can enter, whatever the umask."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def make_private(path: Path) -> None:
    """Create a directory, and its missing parents, that only this user can enter. An existing directory is kept."""
    if not path.parent.exists():
        make_private(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def own_directory(path: Path, variable: str = "TMPDIR") -> Path:
    """Create a private directory where another user may have created it first.

    Raises:
        PermissionError: it is a link or belongs to another user; ``variable`` is the environment variable to set.
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
