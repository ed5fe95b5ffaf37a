"""A thread-safe list of events that a test can wait on."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

T = TypeVar("T")


class EventLog:
    """Collects entries (messages, events, strings) in the order in which any thread adds them."""

    def __init__(self) -> None:
        self._entries: list[Any] = []
        self._changed = threading.Condition()

    def add(self, entry: object) -> None:
        """Append an entry and wake the threads that wait for one."""
        with self._changed:
            self._entries.append(entry)
            self._changed.notify_all()

    def clear(self) -> None:
        """Forget the entries so far."""
        with self._changed:
            self._entries.clear()

    @property
    def entries(self) -> list[Any]:
        """A copy of all entries."""
        with self._changed:
            return list(self._entries)

    @property
    def names(self) -> list[str]:
        """The entries as text: a string as it is, another entry by its class name."""
        return [entry if isinstance(entry, str) else type(entry).__name__ for entry in self.entries]

    def of(self, kind: type[T]) -> list[T]:
        """The entries of a class."""
        return [entry for entry in self.entries if isinstance(entry, kind)]

    def await_one(self, kind: type[T], number: int = 1, timeout_s: float = 30) -> T:
        """Wait for entry ``number`` (from 1) of a class and return it."""
        self.await_count(kind, number, timeout_s)
        return self.of(kind)[number - 1]

    def await_count(self, wanted: object, count: int = 1, timeout_s: float = 30) -> None:
        """Wait until the log holds ``count`` entries that equal ``wanted``, or are instances of it if it is a class."""

        def found() -> int:
            if isinstance(wanted, type):
                return sum(isinstance(entry, wanted) for entry in self._entries)
            return self._entries.count(wanted)

        with self._changed:
            in_time = self._changed.wait_for(lambda: found() >= count, timeout_s)
            assert in_time, f"{found()} of {count} {wanted!r} within {timeout_s:g} s: {self._entries}"
