"""Mutants of the receiver checks RC-31 to RC-34."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from tests.mutants.receiver_references import Entries
from tests.mutants.references import MemoryReceiver, memory_mutant

from penstock import StoreError
from penstock_testing import MemoryFeeder
from penstock_testing.memory_source import MemoryConnection


class AcknowledgesFirst(MemoryReceiver):
    """Acknowledges, then stores."""

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        for position, _ in entries:
            connection.acknowledge(position)
        self.store_all([record for _, record in entries])


class AcknowledgesBuffered(MemoryReceiver):
    """Acknowledges what is only buffered."""

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        for position, record in entries:
            self.store(record)
            connection.acknowledge(position)


class AcknowledgesByTimer(MemoryReceiver):
    """Acknowledges every 0.2 s what it has read, as Kafka's ``enable.auto.commit``."""

    def receive(self) -> None:
        self.read: list[int] = []
        done = threading.Event()
        timer = threading.Thread(target=self.acknowledge_all, args=(done,), daemon=True)
        timer.start()
        try:
            super().receive()
        finally:
            done.set()
            timer.join()

    def acknowledge_all(self, done: threading.Event) -> None:
        while not done.wait(0.2):
            for position in list(self.read):
                self.connection.acknowledge(position)  # type: ignore[union-attr]  # nothing is read without it

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        self.read += [position for position, _ in entries]
        self.store_all([record for _, record in entries])


class NeverAcknowledges(MemoryReceiver):
    """Acknowledges nothing."""

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        self.store_all([record for _, record in entries])


class DeadLetterFeeder(MemoryFeeder):
    """A source at which a record can be rejected: it is not delivered again, and not acknowledged either."""

    rejected: ClassVar[set[Any]] = set()

    def acknowledged(self) -> list[Any]:
        return [record for record in super().acknowledged() if record not in self.rejected]


class Rejects(MemoryReceiver):
    """Rejects what could not be stored, so that it does not come back."""

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        try:
            super().take(connection, entries)
        except StoreError:
            for position, record in entries:
                DeadLetterFeeder.rejected.add(record)
                connection.acknowledge(position)
            raise


class AcknowledgesUpTo(MemoryReceiver):
    """Continues after a refusal; its acknowledgement of a record covers all records before it."""

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        try:
            self.store_all([record for _, record in entries])
        except StoreError as error:
            self.reportError("not stored", error)
            return
        for position in range(entries[-1][0] + 1):
            connection.acknowledge(position)


class NeverFreesWindow(MemoryReceiver):
    """Waits while 400 records are in flight, and counts what is stored as in flight."""

    in_flight = 0

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        for entry in entries:
            self.in_flight += 1
            while self.in_flight > 400:
                if self.wait(0.01):
                    return
            super().take(connection, [entry])


_FORGOTTEN = "the source does not redeliver acknowledged records"

MUTANTS = [
    memory_mutant(
        "RC-31",
        AcknowledgesFirst,
        "acknowledged 5 records that are not stored",
        1.0,
        "RC-32",
        "RC-33",
        because=_FORGOTTEN,
    ),
    memory_mutant(
        "RC-31",
        AcknowledgesBuffered,
        "acknowledged 5 records that are not stored",
        1.0,
        "RC-32",
        "RC-33",
        because=_FORGOTTEN,
    ),
    memory_mutant("RC-31", AcknowledgesByTimer, "5 records that are not stored"),
    memory_mutant(
        "RC-31",
        NeverAcknowledges,
        "acknowledged 0 of 5 stored records",
        0.1,
        "PK-14",
        "RC-34",
        because="both wait for acknowledgements",
    ),
    memory_mutant(
        "RC-32",
        Rejects,
        "5 of 5 records are not stored",
        0.1,
        "RC-33",
        because="refused records must come back there, too",
        feeder=DeadLetterFeeder,
    ),
    memory_mutant("RC-33", AcknowledgesUpTo, "acknowledged records that are not stored"),
    memory_mutant(
        "RC-34",
        NeverFreesWindow,
        "200 of 600 records are not stored",
        0.1,
        "RC-24",
        because="it puts more records than the window has, before any is accepted",
    ),
]
