"""A directory in memory that records every operation and fails where a test says."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from penstock.storage.directory import Appender, Directory, Durability


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class MemoryDirectory(Directory):
    """Keeps what was written and what was committed apart. ``hook`` is called before every operation."""

    def __init__(self, files: Mapping[str, bytes] = {}, *, can_append: bool = True) -> None:
        self.files = {name: bytearray(data) for name, data in files.items()}
        self.can_append = can_append
        self.committed = {name: len(data) for name, data in files.items()}
        self.operations: list[tuple[str, str]] = []
        #: Those of the commits, in order.
        self.durabilities: list[Durability] = []
        self.hook: Callable[[str, str], None] = lambda _operation, _name: None

    def note(self, operation: str, name: str) -> None:
        self.operations.append((operation, name))
        self.hook(operation, name)

    def count(self, operation: str) -> int:
        return sum(each == operation for each, _ in self.operations)

    def fail_at(self, numbers: range, error: Callable[[], OSError] = full_disk) -> None:
        """Have the operations of these numbers fail, counted from now on; not reading, and not closing."""
        counted = iter(range(10**9))

        def hook(operation: str, _name: str) -> None:
            if operation in ("append", "write", "commit", "delete") and next(counted) in numbers:
                raise error()

        self.hook = hook

    def fail(self, *operations: str, error: Exception | None = None) -> None:
        """Have these operations fail from now on, and no others; without an error the disk is full."""

        def hook(operation: str, _name: str) -> None:
            if operation in operations:
                raise error or full_disk()

        self.hook = hook

    def after_power_loss(self, rng: random.Random) -> MemoryDirectory:
        """The folder that the next run finds: what was not committed is there in part."""
        return MemoryDirectory(
            {name: bytes(data[: rng.randint(self.committed[name], len(data))]) for name, data in self.files.items()},
            can_append=self.can_append,
        )

    def with_what_was_committed(self) -> MemoryDirectory:
        """The folder that the next run finds after the worst of power losses."""
        return MemoryDirectory({name: bytes(data[: self.committed[name]]) for name, data in self.files.items()})

    def copy(self) -> MemoryDirectory:
        return MemoryDirectory({name: bytes(data) for name, data in self.files.items()}, can_append=self.can_append)

    def location(self, name: str = "") -> str:
        return f"memory/{name}"

    def child(self, name: str) -> Directory:
        """Another directory in memory."""
        return MemoryDirectory()

    def all_names(self) -> list[str]:
        self.note("names", "")
        return sorted(self.files)

    def changed_s(self) -> dict[str, float]:
        return dict.fromkeys(self.names(), 0.0)

    def read(self, name: str) -> bytes:
        self.note("read", name)
        if name not in self.files:
            raise FileNotFoundError(name)
        return bytes(self.files[name])

    def copy_to(self, name: str, path: Path) -> None:
        path.write_bytes(self.read(name))

    def create(self, name: str, *, sync: bool = False) -> AbstractContextManager[BinaryIO]:
        raise AssertionError(f"a write-ahead log appends, and {name} was to be written as a whole")

    def move(self, name: str, folder: str) -> bool:
        raise AssertionError(f"a write-ahead log moves nothing, and {name} was to be moved to {folder}")

    def sync(self, known: Collection[str] = ()) -> set[str]:
        self.note("sync", "")
        return set()

    def delete(self, name: str) -> bool:
        self.note("delete", name)
        return self.files.pop(name, None) is not None

    def append(self, name: str) -> Appender:
        self.note("append", name)
        assert name not in self.files, "no file is begun twice"
        self.files[name], self.committed[name] = bytearray(), 0
        return MemoryAppender(self, name)


class MemoryAppender(Appender):
    def __init__(self, directory: MemoryDirectory, name: str) -> None:
        self._directory = directory
        self._name = name

    def write(self, data: bytes) -> None:
        # What fails half way has written a half.
        file = self._directory.files[self._name]
        try:
            self._directory.note("write", self._name)
        except OSError:
            file += data[: len(data) // 2]
            raise
        file += data

    def commit(self, durability: Durability = Durability.FLUSH) -> None:
        self._directory.note("commit", self._name)
        self._directory.durabilities.append(durability)
        if durability is not Durability.NONE:
            self._directory.committed[self._name] = len(self._directory.files[self._name])

    def close(self) -> None:
        self._directory.note("close", self._name)
        if self._name in self._directory.files:
            self._directory.committed[self._name] = len(self._directory.files[self._name])
