"""Write-ahead logs on a directory in memory, with a state that is a list."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from tests.helpers.memory_directory import MemoryDirectory

from penstock.conf import Settings
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.storage.directory import Directory
from penstock_testing import ManualClock

Event = dict[str, Any]


class ListState:
    """All events, in order."""

    def __init__(self) -> None:
        self.applied: list[Event] = []

    def apply(self, event: Event) -> None:
        self.applied.append(event)

    def events(self) -> list[Event]:
        return list(self.applied)

    @property
    def numbers(self) -> list[int]:
        return [event["n"] for event in self.applied]


class Kept:
    """A log with its state."""

    def __init__(
        self, directory: Directory, run: str, conf: Mapping[str, str], clock: ManualClock, known: int = 0
    ) -> None:
        self.directory = directory
        self.state = ListState()
        self.clock = clock
        self.log = WriteAheadLog(directory, run, Settings.parse(conf), clock, known, {"n": -1})
        self.recovered = self.log.recover(self.state)

    def add(self, *numbers: int) -> None:
        for number in numbers:
            self.log.append({"n": number, "text": f"event {number}"})

    def add_together(self, numbers: range) -> None:
        """Append each number on a thread of its own; return when all are committed."""
        threads = [threading.Thread(target=self.add, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

    def settle(self, number: int) -> None:
        """Append one more event: when it is committed, the writer has finished with the earlier ones."""
        self.add(number)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def keep(clock: ManualClock) -> Iterator[Callable[..., Kept]]:
    """Makes recovered logs, started unless ``start`` is false."""
    made: list[Kept] = []

    def make(
        directory: Directory,
        run: str = "run-1",
        conf: Mapping[str, str] | None = None,
        *,
        start: bool = True,
        known: int = 0,
    ) -> Kept:
        kept = Kept(directory, run, conf or {}, clock, known)
        made.append(kept)
        if start:
            kept.log.start()
        return kept

    yield make
    for kept in made:
        kept.log.close()


@pytest.fixture
def memory() -> type[MemoryDirectory]:
    """A directory in memory."""
    return MemoryDirectory


@pytest.fixture
def list_state() -> type[ListState]:
    """A state that is a list."""
    return ListState
