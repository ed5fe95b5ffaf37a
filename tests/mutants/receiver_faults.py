"""Mutants of the receiver checks RC-25 to RC-30."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.receiver_references import BareReceiver, Found, JsonFeeder, JsonReceiver, PipeReceiver
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver

from penstock.testing import MemoryFeeder, MemorySource
from penstock.testing.memory_source import MemoryConnection


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

    def receive(self) -> None:
        while not self.isStopped():
            try:
                super().receive()
                return
            except OSError as error:
                if not self.isStopped():
                    self.reportError("connection lost", error)
                    self.wait(0.3)


class Spins(MemoryReceiver):
    """Reconnects at once."""

    def receive(self) -> None:
        while not self.isStopped():
            try:
                super().receive()
                return
            except OSError as error:
                if not self.isStopped():
                    self.reportError("connection lost", error)


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
        try:
            self.read_all()
        except OSError as error:
            if not self.isStopped():
                self.restart("reading failed", error)
        except Exception:  # this is what it does wrong
            pass


class IgnoresProcess(PipeReceiver):
    """Takes the end of its process for the end of the source."""

    def take(self, connection: MemoryConnection, found: Found) -> None:
        try:
            super().take(connection, found)
        except OSError:
            self.wait(3600)


def _mutant(check: str, make: type, words: str, also: tuple[str, ...] = (), scale: float = 1.0) -> Mutant:
    feeder = JsonFeeder if issubclass(make, JsonReceiver) else MemoryFeeder
    return Mutant(
        check=check,
        words=words,
        kind="receiver",
        make=make,
        feeder=feeder,
        capabilities=MEMORY_RECEIVER,
        also=also,
        scale=scale,
    )


MUTANTS = [
    _mutant("RC-25", ConnectsInOnStart, "onStart raised", also=("RC-26",)),
    _mutant("RC-25", HidesRefusal, "reported no error for a refused connection", scale=0.1),
    _mutant("RC-26", EndsWithConnection, "the record after the cut is not stored", scale=0.1),
    _mutant("RC-27", ConstantDelay, ", 500, 500, 500] ms"),
    _mutant("RC-27", WaitsConstantly, "in real time"),
    _mutant("RC-27", Spins, "attempts to connect without a delay"),
    _mutant("RC-28", RepeatsBadRecord, "the record after the bad one is not stored", scale=0.1),
    _mutant("RC-28", DropsSilently, "reported no error for the bad record"),
    _mutant("RC-28", StoresBadRecord, "stored records that were not put, or twice: ['{']"),
    _mutant("RC-29", ReportsTwice, "the receiver reported one error 2 times"),
    _mutant("RC-30", LosesReader, "did not notice the end of thread 'bare reader'", scale=0.1),
    _mutant("RC-30", IgnoresProcess, "did not notice the end of process", scale=0.1),
]
