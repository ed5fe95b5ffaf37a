"""``Progress``: what a writer of tables does now, in bytes that it shares with the process that kills it."""

from __future__ import annotations

import mmap
from enum import IntEnum
from pathlib import Path


class Phase(IntEnum):
    """What a writer does."""

    BETWEEN_BATCHES = 0
    TASKS = 1
    COMMIT = 2
    DONE = 3

    @property
    def text(self) -> str:
        """The name, for people."""
        return self.name.lower().replace("_", " ")


class Progress:
    """The phase of a writer, and the number of batches that it has written.

    Args:
        path: file that the processes share; without one, a forked child shares the memory of its parent.
    """

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            self._bytes = mmap.mmap(-1, 16)
            return
        if not path.exists():
            path.write_bytes(bytes(16))
        with path.open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), 16)

    @property
    def phase(self) -> Phase:
        """What the writer does now."""
        return Phase(self._bytes[0])

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._bytes[0] = phase

    @property
    def batches(self) -> int:
        """The number of batches that were written."""
        return int.from_bytes(self._bytes[8:16])

    @batches.setter
    def batches(self, batches: int) -> None:
        self._bytes[8:16] = batches.to_bytes(8)
