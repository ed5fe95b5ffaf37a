"""``SimulatedDisk``: files in memory, of which a power failure leaves what was synced and any part of the rest.

Three things are kept apart: what a process has written to an open file, what the operating system has, and what the
disk has. A killed process loses the first, a power failure the first two. Of what was not synced, the seed decides for
each file whether the old or the new content survives, or new content that is cut off or has lost sectors.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from penstock.spi import Directory
from penstock_testing.simulation.scheduler import Scheduler

#: Begins every location on the disk.
SCHEME = "simulated:"
_SECTOR = 64
# The longest time of an operation that is not slowed down, in seconds.
_OPERATION_S = 0.002


class SimulatedDisk:
    """The files by path. ``fault`` is called before each operation, and may raise an OSError or let time pass."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        #: What the operating system has, and what the disk has.
        self.files: dict[str, bytes] = {}
        self.synced: dict[str, bytes] = {}
        self.changed_s: dict[str, float] = {}
        self.fault: Callable[[str, str], None] = lambda _operation, _path: None

    def operate(self, operation: str, path: str) -> None:
        """Take the time of an operation, in which other threads run and faults happen."""
        self.scheduler.check()
        self.scheduler.elapse(self.scheduler.random.random() * _OPERATION_S)
        self.fault(operation, path)

    def put(self, path: str, data: bytes, *, sync: bool) -> None:
        """Replace a file."""
        self.scheduler.check()
        self.files[path] = data
        self.changed_s[path] = self.scheduler.now_s
        if sync:
            self.sync(path)

    def sync(self, path: str) -> None:
        """Have the disk store a file and its name, or the deletion of its name."""
        self.scheduler.check()
        if path in self.files:
            self.synced[path] = self.files[path]
        else:
            self.synced.pop(path, None)

    def delete(self, path: str) -> bool:
        """Delete a file; the disk may still have it after a power failure."""
        self.scheduler.check()
        return self.files.pop(path, None) is not None

    def fail_power(self) -> None:
        """Lose what was not synced, or parts of it."""
        random = self.scheduler.random
        for path in sorted({*self.files, *self.synced}):
            old, new = self.synced.get(path), self.files.get(path)
            if old == new:
                continue
            survivor = random.choice((old, new)) if new is None else random.choice((old, new, _part(random, old, new)))
            if survivor is None:
                self.files.pop(path, None)
            else:
                self.files[path] = survivor
        self.synced = dict(self.files)

    def below(self, directory: str) -> list[str]:
        """The paths of all files in a directory and its subdirectories."""
        inside = f"{directory}/"
        return sorted([path for path in self.files if path.startswith(inside)])

    # -- as a file system of Arrow, from which tasks read blocks --

    def open_input_file(self, path: str) -> pa.BufferReader:
        """Open a file for reading."""
        self.operate("read", path)
        return pa.BufferReader(self.content(path))

    def content(self, path: str) -> bytes:
        """A file's bytes."""
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self.files[path]


def _part(random: Any, old: bytes | None, new: bytes) -> bytes:
    """New content of which only a part has reached the disk; what was synced before stays."""
    kept = old if old is not None and new.startswith(old) else b""
    rest = new[len(kept) :]
    if random.random() < 0.5:
        return kept + rest[: random.randint(0, len(rest))]
    sectors = (rest[at : at + _SECTOR] for at in range(0, len(rest), _SECTOR))
    return kept + b"".join(sector if random.random() < 0.5 else bytes(len(sector)) for sector in sectors)


class SimulatedDirectory(Directory):
    """A directory on the disk."""

    def __init__(self, disk: SimulatedDisk, location: str) -> None:
        self._disk = disk
        self._location = location.rstrip("/")

    def location(self, name: str = "") -> str:
        return f"{self._location}/{name}" if name else self._location

    def child(self, name: str) -> SimulatedDirectory:
        return SimulatedDirectory(self._disk, self.location(name))

    def all_names(self) -> list[str]:
        self._disk.operate("list", self._location)
        start = len(self._location) + 1
        return [path[start:] for path in self._disk.below(self._location) if "/" not in path[start:]]

    def changed_s(self) -> dict[str, float]:
        return {name: self._disk.changed_s[self.location(name)] for name in self.all_names()}

    def read(self, name: str) -> bytes:
        self._disk.operate("read", self.location(name))
        return self._disk.content(self.location(name))

    def copy_to(self, name: str, path: Path) -> None:
        path.write_bytes(self.read(name))

    @contextmanager
    def create(self, name: str, *, sync: bool = False) -> Iterator[BinaryIO]:
        path = self.location(name)
        self._disk.operate("create", path)
        buffer = io.BytesIO()
        yield buffer
        self._disk.operate("write", path)
        self._disk.put(path, buffer.getvalue(), sync=sync)

    def delete(self, name: str) -> bool:
        self._disk.operate("delete", self.location(name))
        return self._disk.delete(self.location(name))

    def move(self, name: str, folder: str) -> bool:
        path = self.location(name)
        self._disk.operate("move", path)
        if path not in self._disk.files:
            return False
        self._disk.put(f"{self._location}/{folder}/{name}", self._disk.files[path], sync=False)
        return self._disk.delete(path)

    def sync(self, known: Collection[str] = ()) -> set[str]:
        files = set(self._disk.below(self._location))
        for path in sorted(files.difference(known)):
            self._disk.operate("sync", path)
            self._disk.sync(path)
        return files

    def append(self, name: str) -> Any:
        path = self.location(name)
        self._disk.operate("create", path)
        if path in self._disk.files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._disk.put(path, b"", sync=False)
        return SimulatedAppender(self._disk, path)


class SimulatedAppender:
    """A file that is written record by record; see ``penstock.spi.Appender``."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        # Written by the process, and not given to the operating system yet.
        self._buffer = b""

    def write(self, data: bytes) -> None:
        """Append bytes; a part of them is written if that fails."""
        try:
            self._disk.fault("write", self._path)
        except OSError:
            self._buffer += data[: self._disk.scheduler.random.randint(0, len(data))]
            raise
        self._buffer += data

    def commit(self, durability: Any = None) -> None:
        """Give what was written to the operating system, or to the disk."""
        kind = "flush" if durability is None else durability.value
        if kind == "none":
            return
        self._disk.operate(kind, self._path)
        self._flush()
        if kind == "fsync":
            self._disk.sync(self._path)

    def close(self) -> None:
        """Close the file."""
        self._disk.operate("close", self._path)
        self._flush()

    def _flush(self) -> None:
        if self._buffer and self._path in self._disk.files:
            self._disk.put(self._path, self._disk.files[self._path] + self._buffer, sync=False)
        self._buffer = b""
