"""Mutants of the receiver checks RC-25 to RC-30."""

from __future__ import annotations

from contextlib import suppress

from tests.mutants.receiver_references import BareReceiver, Entries, JsonFeeder, JsonReceiver, PipeReceiver
from tests.mutants.references import MemoryReceiver, memory_mutant

from penstock_testing import MemorySource
from penstock_testing.memory_source import MemoryConnection


class ConnectsInOnStart(MemoryReceiver):
    """A refused connection is an error of onStart."""

    def onStart(self) -> None:
        MemorySource.find(self.address).connect().close()
        super().onStart()


class HidesRefusal(MemoryReceiver):
    """Waits for the source without a word."""

    def receive(self) -> None:
        delay = 0.01
        while not self.wait(delay):
            try:
                super().receive()
                return
            except ConnectionRefusedError:
                delay *= 2


class EndsWithConnection(MemoryReceiver):
    """Takes a broken connection for the end."""

    def receive(self) -> None:
        try:
            super().receive()
        except ConnectionResetError as error:
            if not self.isStopped():
                self.reportError("connection lost", error)


class ConstantDelay(MemoryReceiver):
    """Reconnects at a constant pace."""

    def receive(self) -> None:
        try:
            super().receive()
        except OSError as error:
            if not self.isStopped():
                self.restart("connection lost", error, delay_ms=500)


class WaitsConstantly(MemoryReceiver):
    """Reconnects at a constant pace of its own."""

    pause_s = 0.3

    def receive(self) -> None:
        while not self.isStopped():
            try:
                super().receive()
                return
            except OSError as error:
                if not self.isStopped():
                    self.reportError("connection lost", error)
                    self.wait(self.pause_s)


class Spins(WaitsConstantly):
    """Reconnects at once."""

    pause_s = 0.0


class RepeatsBadRecord(JsonReceiver):
    """A bad record restarts it, and comes back."""

    def bad(self, text: str, error: Exception) -> None:
        raise error


class DropsSilently(JsonReceiver):
    """Drops a bad record without a word."""

    def bad(self, text: str, error: Exception) -> None:
        pass


class StoresBadRecord(JsonReceiver):
    """Stores what it cannot decode as it is."""

    def bad(self, text: str, error: Exception) -> None:
        super().bad(text, error)
        self.store_all([text])


class ReportsTwice(MemoryReceiver):
    """Reports an error and raises it."""

    def receive(self) -> None:
        try:
            super().receive()
        except OSError as error:
            if not self.isStopped():
                self.reportError("connection lost", error)
                raise


class LosesReader(BareReceiver):
    """Handles the errors that it foresees; any other ends its thread."""

    def read(self) -> None:
        with suppress(Exception):  # this is what it does wrong
            try:
                self.read_all()
            except OSError as error:
                if not self.isStopped():
                    self.restart("reading failed", error)


class IgnoresProcess(PipeReceiver):
    """Takes the end of its process for the end of the source."""

    def take(self, connection: MemoryConnection, entries: Entries) -> None:
        try:
            super().take(connection, entries)
        except OSError:
            self.wait(3600)


MUTANTS = [
    memory_mutant(
        "RC-25",
        ConnectsInOnStart,
        "onStart raised",
        1.0,
        "RC-26",
        because="an error of onStart ends the receiver during the outage",
    ),
    memory_mutant("RC-25", HidesRefusal, "reported no error for a refused connection", 0.1),
    memory_mutant("RC-26", EndsWithConnection, "the record after the cut is not stored", 0.1),
    memory_mutant("RC-27", ConstantDelay, "the delays between attempts do not grow"),
    memory_mutant("RC-27", WaitsConstantly, "in real time"),
    memory_mutant("RC-27", Spins, "attempts to connect without a delay"),
    memory_mutant("RC-28", RepeatsBadRecord, "the record after the bad one is not stored", 0.1, feeder=JsonFeeder),
    memory_mutant("RC-28", DropsSilently, "reported no error for the bad record", feeder=JsonFeeder),
    memory_mutant("RC-28", StoresBadRecord, "stored records that were not put, or twice: ['{']", feeder=JsonFeeder),
    memory_mutant("RC-29", ReportsTwice, "the receiver reported one error 2 times"),
    memory_mutant("RC-30", LosesReader, "did not notice the end of thread 'bare reader'", 0.1),
    memory_mutant("RC-30", IgnoresProcess, "did not notice the end of process", 0.1),
]
