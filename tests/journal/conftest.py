"""Write-ahead logs on a directory in memory, and a fold that is a list."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from tests.helpers.memory_directory import MemoryDirectory

from penstock.conf import Settings
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.runtime.clock import ManualClock
from penstock.storage.directory import Directory

Event = dict[str, Any]


class ListFold:
    """Every event there was, in order."""

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
    """A journal with its fold."""

    def __init__(
        self, directory: Directory, run: str, conf: Mapping[str, str], clock: ManualClock, known: int = 0
    ) -> None:
        self.directory, self.fold, self.clock = directory, ListFold(), clock
        self.journal = WriteAheadLog(directory, run, Settings.parse(conf), clock, known, {"n": -1})
        self.recovered = self.journal.recover(self.fold)

    def add(self, *numbers: int) -> None:
        for number in numbers:
            self.journal.append({"n": number, "text": f"event {number}"})

    def add_together(self, numbers: range) -> None:
        """Append on as many threads, and return when all are committed."""
        threads = [threading.Thread(target=self.add, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

    def settle(self, number: int) -> None:
        """Return when the writer has done all that it does behind the events so far."""
        self.add(number)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def keep(clock: ManualClock) -> Iterator[Callable[..., Kept]]:
    """Makes journals that have recovered; they are started unless that is not wanted."""
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
            kept.journal.start()
        return kept

    yield make
    for kept in made:
        kept.journal.close()


@pytest.fixture
def memory() -> type[MemoryDirectory]:
    """A folder in memory."""
    return MemoryDirectory


@pytest.fixture
def list_fold() -> type[ListFold]:
    """A fold that is a list."""
    return ListFold
