"""Mutants of the receiver checks RC-18 to RC-24."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any

from attrs import evolve
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver, memory_mutant

from penstock import ReceiverStoppedError
from penstock.blocks import arrow_form
from penstock_testing import MemorySource
from penstock_testing.memory_source import MemoryConnection

_Entries = list[tuple[int, str]]


class Unlimited(MemoryReceiver):
    """Knows how to store without asking the rate limiter."""

    @property
    def supervisor(self) -> Any:
        return self._Receiver__supervisor  # type: ignore[attr-defined]  # private: nobody should

    def store_unlimited(self, records: Sequence[str]) -> None:
        # The mutant stores without the rate limit, which no public method does.
        self.supervisor._pusher.push_and_await(arrow_form.encode(list(records)), len(records), None, 0)

    def take(self, connection: MemoryConnection, entries: _Entries) -> None:
        if not self.ignores(entries):
            super().take(connection, entries)
            return
        self.store_unlimited([record for _, record in entries])
        for position, _ in entries:
            connection.acknowledge(position)

    def ignores(self, entries: _Entries) -> bool:
        raise NotImplementedError


class IgnoresHighLimit(Unlimited):
    """Obeys low limits only."""

    def ignores(self, entries: _Entries) -> bool:
        return (self.rate_limit or 0) > 500


class BeginsUnlimited(Unlimited):
    """Stores the first records at once."""

    def take(self, connection: MemoryConnection, entries: _Entries) -> None:
        super().take(connection, entries[:5])
        super().take(connection, entries[5:])

    def ignores(self, entries: _Entries) -> bool:
        return entries[:1] != [] and entries[0][0] == 0


class IgnoresPause(Unlimited):
    """Does not wait while it is paused."""

    def ignores(self, entries: _Entries) -> bool:
        return bool(self.supervisor.state.is_paused)


class StaysSlow(MemoryReceiver):
    """Pauses for a minute when the rate is low."""

    def take(self, connection: MemoryConnection, entries: _Entries) -> None:
        if (self.rate_limit or 100) >= 5:
            super().take(connection, entries)
            return
        for entry in entries:
            super().take(connection, [entry])
            self.wait(60)


class RemembersRate(Unlimited):
    """Keeps the rate that it has started with."""

    def on_rate_change(self, rate: float | None) -> None:
        if rate is not None:
            # The mutant ignores the new rate, which no public method does.
            self.supervisor._limiter.update(200)

    def ignores(self, entries: _Entries) -> bool:
        return False


class Hoards(MemoryReceiver):
    """Reads on one thread and stores on another, with a queue between them."""

    def receive(self) -> None:
        waiting = self.make_queue()
        self.connection = connection = MemorySource.find(self.address).connect()
        storer = threading.Thread(target=self._store, args=(connection, waiting), daemon=True)
        storer.start()
        try:
            while not self.isStopped() and (entries := connection.read(100)):
                self.enqueue(waiting, entries)
        finally:
            connection.close()
            waiting.put([])
            storer.join(5)

    def make_queue(self) -> queue.Queue[_Entries]:
        return queue.Queue()

    def enqueue(self, waiting: queue.Queue[_Entries], entries: _Entries) -> None:
        waiting.put(entries)

    def _store(self, connection: MemoryConnection, waiting: queue.Queue[_Entries]) -> None:
        try:
            while entries := waiting.get():
                self.take(connection, entries)
        except ReceiverStoppedError:
            pass  # the end of a stop
        except Exception as error:
            self.restart("Error storing", error)


class DropsOverflow(Hoards):
    """Drops records that do not fit into the queue."""

    def make_queue(self) -> queue.Queue[_Entries]:
        return queue.Queue(5)

    def enqueue(self, waiting: queue.Queue[_Entries], entries: _Entries) -> None:
        try:
            waiting.put_nowait(entries)
        except queue.Full:
            self.drop(entries)

    def drop(self, entries: _Entries) -> None:
        pass


class CountsDropped(DropsOverflow):
    """Says how many records it has dropped: passes the check."""

    def drop(self, entries: _Entries) -> None:
        self.reportError(f"{len(entries)} records dropped")


class Miscounts(DropsOverflow):
    """Says how many groups of records it has dropped."""

    def drop(self, entries: _Entries) -> None:
        self.reportError("1 record dropped")


MUTANTS = [
    memory_mutant("RC-18", IgnoresHighLimit, "a limit of 800 records/s"),
    memory_mutant(
        "RC-19",
        BeginsUnlimited,
        "an initial rate of 20 records/s",
        1.0,
        "RC-18",
        because="the limit covers the first records, too",
    ),
    memory_mutant("RC-20", IgnoresPause, "the receiver stored 200 records during a pause"),
    memory_mutant("RC-21", StaysSlow, "the receiver stored 1 of 100 records after the limit was removed", 0.1),
    memory_mutant("RC-22", RemembersRate, "first 200 records/s, then 20 records/s"),
    memory_mutant("RC-23", Hoards, "the receiver has taken 4000 records"),
    memory_mutant(
        "RC-24",
        DropsOverflow,
        "of 2000 records",
        0.1,
        "RC-23",
        because="a receiver that drops records takes them without end",
    ),
    evolve(memory_mutant("RC-24", Miscounts, "as dropped", 0.1), capabilities=evolve(MEMORY_RECEIVER, drops=True)),
]
