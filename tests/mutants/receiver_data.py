"""Mutants of the receiver checks RC-10 to RC-17."""

from __future__ import annotations

import contextlib

from tests.mutants.line_receiver import LineReceiver, line_mutant
from tests.mutants.references import MemoryReceiver, memory_mutant

from penstock_testing import MemorySource
from penstock_testing.memory_source import MemoryConnection

_Entries = list[tuple[int, str]]


class LosesOne(MemoryReceiver):
    """Acknowledges every 97th record without storing it."""

    def take(self, connection: MemoryConnection, entries: _Entries) -> None:
        super().take(connection, [entry for entry in entries if entry[0] % 97 != 96])


class StoresTwice(MemoryReceiver):
    """Stores every 97th record twice."""

    def take(self, connection: MemoryConnection, entries: _Entries) -> None:
        super().take(connection, [entry for entry in entries for _ in range(1 + (entry[0] % 97 == 96))])


class StoresReversed(MemoryReceiver):
    """Stores each large group from its end."""

    def take(self, connection: MemoryConnection, entries: _Entries) -> None:
        super().take(connection, entries[::-1] if len(entries) > 10 else entries)


class Strips(MemoryReceiver):
    """Removes white space around records."""

    def take(self, connection: MemoryConnection, entries: _Entries) -> None:
        super().take(connection, [(position, record.strip()) for position, record in entries])


class SplitsCharacters(LineReceiver):
    """Decodes what each read returns by itself."""

    def lines(self, data: bytes) -> list[str]:
        return super().lines(data.decode(errors="replace").encode())


class ForgetsLast(LineReceiver):
    """Stores only lines with a line feed."""

    def finish(self) -> None:
        pass


class DropsQuietly(LineReceiver):
    """Drops long lines without a word."""

    def reject(self, message: str) -> None:
        if "longer" not in message:
            super().reject(message)


class Spins(MemoryReceiver):
    """Asks again at once when there is nothing."""

    def receive(self) -> None:
        self.connection = connection = MemorySource.find(self.address).connect()
        while not self.isStopped():
            with contextlib.suppress(TimeoutError):
                if not (entries := connection.read(timeout_s=0)):
                    self.stop("the source has ended")
                    return
                self.take(connection, entries)
            for _ in range(10_000):
                pass


class EndsWhenIdle(MemoryReceiver):
    """Takes a pause of the source for its end."""

    def receive(self) -> None:
        self.connection = connection = MemorySource.find(self.address).connect()
        with contextlib.suppress(TimeoutError):
            timeout_s = None
            while not self.isStopped() and (entries := connection.read(timeout_s=timeout_s)):
                self.take(connection, entries)
                timeout_s = 0.04
            self.stop("the source has ended")
            return
        self.wait(60)


class OtherInGroups(MemoryReceiver):
    """Stores the records of a middle-sized group as bytes."""

    def take(self, connection: MemoryConnection, entries: _Entries) -> None:
        if 10 < len(entries) <= 20:
            self.store_all([record.encode() for _, record in entries])  # type: ignore[misc]  # that is the mistake
            for position, _ in entries:
                connection.acknowledge(position)
        else:
            super().take(connection, entries)


MUTANTS = [
    memory_mutant(
        "RC-10",
        LosesOne,
        "3 missing, such as '96-",
        0.05,
        "RC-20",
        "RC-21",
        "RC-24",
        "RC-34",
        "RC-45",
        because="each of them puts more than 96 records, and counts those stored",
    ),
    memory_mutant(
        "RC-10",
        StoresTwice,
        "3 stored without being fed, or too often",
        1.0,
        "RC-24",
        "RC-45",
        because="both put more than 96 records, and count those stored",
    ),
    memory_mutant("RC-11", StoresReversed, "is stored before number"),
    memory_mutant("RC-12", Strips, "2 of 9 odd records are not stored"),
    line_mutant(
        "RC-13",
        SplitsCharacters,
        "missing, such as",
        1.0,
        "RC-28",
        because="what replaces half a character also replaces bad bytes",
    ),
    line_mutant("RC-13", ForgetsLast, "after the last record without terminator", 0.1),
    line_mutant("RC-14", DropsQuietly, "the receiver reported no error for a record above its size limit", 0.1),
    memory_mutant("RC-15", Spins, "the receiver's threads are busy", 0.1),
    memory_mutant(
        "RC-16",
        EndsWhenIdle,
        "is not stored after a quiet period",
        0.2,
        "RC-30",
        because="RC-30 waits until the receiver is idle, and this one has ended by then",
    ),
    memory_mutant(
        "RC-17",
        OtherInGroups,
        "stored differently from single ones",
        1.0,
        "PK-13",
        because="it puts 20 records at once, and compares them with those stored",
    ),
]
