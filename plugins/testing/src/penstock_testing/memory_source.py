"""``MemorySource`` and ``MemoryFeeder``: an in-memory source for receivers under test, in this process.

A receiver that was pickled finds its source again by ``MemorySource.find(address)``.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from penstock_testing.feeder import Feeder


class MemorySource:
    """A queue of records that behaves like a server: with connections, blocking reads, outages and acknowledgements.

    Thread-safe. The source delivers a record again to the next connection until it is acknowledged.

    Attributes:
        address: a receiver finds the source by it.
    """

    _numbers: ClassVar[itertools.count[int]] = itertools.count()
    _sources: ClassVar[dict[str, MemorySource]] = {}

    def __init__(self) -> None:
        self.address = f"memory-{next(self._numbers)}"
        self._changed = threading.Condition()
        self._records: list[Any] = []
        self._acknowledged: dict[int, None] = {}  # positions, in the order of acknowledgement
        self._polls = self._taken = 0
        self._state = "up"
        self._sources[self.address] = self

    @classmethod
    def find(cls, address: str) -> MemorySource:
        """The source with this address.

        Raises:
            ConnectionRefusedError: no source has this address.
        """
        try:
            return cls._sources[address]
        except KeyError:
            raise ConnectionRefusedError(f"no memory source {address!r}") from None

    def connect(self, position: int | None = None) -> MemoryConnection:
        """Connect.

        Args:
            position: the first record to read; ``None`` selects the first that is not acknowledged.

        Raises:
            ConnectionRefusedError: the source is cut off or closed.
        """
        with self._changed:
            self._polls += 1
            if self._state in {"cut", "closed"}:
                raise ConnectionRefusedError(f"memory source {self.address!r} refuses connections")
            if position is None:
                position = next(index for index in itertools.count() if index not in self._acknowledged)
            return MemoryConnection(self, position)

    def _put(self, records: Sequence[Any]) -> None:
        with self._changed:
            self._records.extend(records)
            self._changed.notify_all()

    def _set(self, state: str) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()


class MemoryConnection:
    """A connection to a ``MemorySource``. A cut of the source breaks it; ``close`` wakes a blocked ``read``."""

    def __init__(self, source: MemorySource, position: int) -> None:
        self._source = source
        self.position = position
        self._closed = False

    def read(self, at_most: int = 1000, timeout_s: float | None = None) -> list[tuple[int, Any]]:
        """Wait for records and return them with their positions; an empty list at the end of the source.

        Raises:
            TimeoutError: no record arrived before the deadline.
            ConnectionResetError: the source was cut off, or the connection closed.
        """
        source = self._source
        with source._changed:
            source._polls += 1
            while True:
                if self._closed or source._state in {"cut", "closed"}:
                    raise ConnectionResetError(f"connection to memory source {source.address!r} lost")
                if source._state != "paused":
                    entries = self._next(at_most)
                    if entries or source._state == "ended":
                        return entries
                if not source._changed.wait(timeout_s):
                    raise TimeoutError(f"no record in memory source {source.address!r} for {timeout_s:g} s")

    def _next(self, at_most: int) -> list[tuple[int, Any]]:
        records, acknowledged, entries = self._source._records, self._source._acknowledged, list[tuple[int, Any]]()
        while self.position < len(records) and len(entries) < at_most:
            if self.position not in acknowledged:
                entries.append((self.position, records[self.position]))
            self.position += 1
        self._source._taken += len(entries)
        return entries

    @property
    def lag(self) -> int:
        """The number of records that the source has after those read."""
        return len(self._source._records) - self.position

    def acknowledge(self, position: int) -> None:
        """Acknowledge a record by its position."""
        with self._source._changed:
            self._source._acknowledged.setdefault(position)

    def close(self) -> None:
        """Close the connection; a blocked ``read`` raises."""
        with self._source._changed:
            self._closed = True
            self._source._changed.notify_all()


class MemoryFeeder(Feeder):
    """Feeds receivers that read from a ``MemorySource``; its one option is ``address``."""

    in_process = True

    def __init__(self) -> None:
        self.source = MemorySource()

    def options(self) -> Mapping[str, Any]:
        return {"address": self.source.address}

    def put(self, records: Sequence[Any]) -> None:
        self.source._put(records)

    def pause(self) -> None:
        self.source._set("paused")

    def cut(self) -> None:
        self.source._set("cut")

    def heal(self) -> None:
        self.source._set("up")

    def end(self) -> None:
        self.source._set("ended")

    def acknowledged(self) -> list[Any]:
        with self.source._changed:
            return [self.source._records[position] for position in self.source._acknowledged]

    def taken(self) -> int:
        return self.source._taken

    def polls(self) -> int:
        return self.source._polls

    def close(self) -> None:
        self.source._set("closed")
        MemorySource._sources.pop(self.source.address, None)
