"""Mutants of the plugin checks PK-12 to PK-14: instances that cannot be pickled, share state, or declare too much."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

from tests.mutants import listener
from tests.mutants.mutant import Mutant
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver

from penstock import BatchCompleted, ListenerContext, Receiver
from penstock_testing import Capabilities, MemoryFeeder

#: Objects by number, where a ``TravelsByNumber`` finds itself again: in this process alone.
_here: dict[int, Receiver[Any]] = {}


class TravelsByNumber(MemoryReceiver):
    """Pickles as its number, by which only this process finds it."""

    def __reduce__(self) -> tuple[Callable[[int], Any], tuple[int]]:
        _here[id(self)] = self
        return _here.__getitem__, (id(self),)


class HoldsLock(MemoryReceiver):
    """Makes in its constructor what cannot be pickled."""

    def __init__(self, feeder: MemoryFeeder) -> None:
        super().__init__(feeder)
        self.lock = threading.Lock()


class ClaimsExport(MemoryReceiver):
    """Declares what only a listener can do."""


class SharesList(MemoryReceiver):
    """Every instance has the same list."""

    def __init__(self, feeder: MemoryFeeder, seen: list[str] = []) -> None:  # noqa: B006  # the mutation
        super().__init__(feeder)
        self.seen = seen


class SharesStop(MemoryReceiver):
    """The stop of one instance is the stop of all."""

    stopping: ClassVar[threading.Event] = threading.Event()

    def onStart(self) -> None:
        self.stopping.clear()
        super().onStart()

    def take(self, connection: Any, entries: list[tuple[int, str]]) -> None:
        if self.stopping.is_set():
            self.stop("stopped")
        else:
            super().take(connection, entries)

    def onStop(self) -> None:
        self.stopping.set()
        super().onStop()


class SharesTotals(listener.Counts):
    """Every instance counts the records of streams in the same dictionary."""

    of_streams: ClassVar[dict[int, int]] = {}

    def __init__(self, context: ListenerContext) -> None:
        super().__init__(context)
        self.of_streams.clear()

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        super().onBatchCompleted(batchCompleted)
        self.of_streams.update(self.stream_records)

    def shown(self) -> dict[str, Any]:
        return super().shown() | {"stream_records": self.of_streams}


MUTANTS = [
    Mutant(
        check="PK-12",
        words="a new TravelsByNumber cannot be pickled: KeyError",
        kind="receiver",
        make=TravelsByNumber,
        feeder=MemoryFeeder,
        capabilities=MEMORY_RECEIVER,
    ),
    Mutant(
        check="PK-12",
        words="a new HoldsLock cannot be pickled: TypeError",
        kind="receiver",
        make=HoldsLock,
        feeder=MemoryFeeder,
        capabilities=MEMORY_RECEIVER,
    ),
    Mutant(
        check="PK-13",
        words="two instances share one list as the attribute 'seen'",
        kind="receiver",
        make=SharesList,
        feeder=MemoryFeeder,
        capabilities=MEMORY_RECEIVER,
    ),
    Mutant(
        check="PK-13",
        words="after a stop of receiver 0, receiver 1 stored 0 of 20",
        kind="receiver",
        make=SharesStop,
        feeder=MemoryFeeder,
        capabilities=MEMORY_RECEIVER,
        scale=0.6,
    ),
    Mutant(
        check="PK-14",
        words="Capabilities.acknowledged is not set, and the receiver acknowledged 20 records",
        kind="receiver",
        defect="Acknowledges, and does not declare it.",
        make=MemoryReceiver,
        feeder=MemoryFeeder,
        capabilities=Capabilities(bounded=True),
    ),
    Mutant(
        check="PK-14",
        words="Capabilities.exports is set for a receiver, and is a flag of a listener",
        kind="receiver",
        make=ClaimsExport,
        feeder=MemoryFeeder,
        capabilities=Capabilities(acknowledged=True, bounded=True, exports=True),
    ),
    Mutant(
        check="PK-13",
        words="events of one listener change 'stream_records' of another from {} to {0: ",
        kind="listener",
        make=listener.counts(SharesTotals),
    ),
]
