"""A disk of a megabyte that a test fills up: a tmpfs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PAGE = 4096


class SmallDisk:
    """A disk of a megabyte."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, *, pages: int = 0) -> None:
        """Leave room for this many pages."""
        self.empty()
        with self._filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(PAGE)):
                pass
        os.truncate(self._filler, max(self._filler.stat().st_size - pages * PAGE, 0))

    def empty(self) -> None:
        """Make room."""
        self._filler.unlink(missing_ok=True)


@contextmanager
def mounted(path: Path) -> Iterator[SmallDisk]:
    """Mount a small disk; skips the test where this user may not."""
    path.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounting.returncode:
        pytest.skip(f"this user may not mount a tmpfs: {mounting.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
