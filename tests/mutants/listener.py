"""Mutants of the listener checks LI-01 to LI-15, and the references from which they derive.

A long file: one class for each way to be wrong.
"""

from __future__ import annotations

import math
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs
from tests.mutants.mutant import Mutant

from penstock import (
    BatchCompleted,
    CheckpointFailed,
    ListenerContext,
    ReceiverError,
    ReceiverStarted,
    StopProgress,
)
from penstock_testing import Capabilities, ListenerProbe, MemoryBackend

PHASES = ("receivers", "batches", "jobs", "checkpoint", "write-ahead log", "release", "files", "listeners")


class Counts:
    """Reference: counts on the bus's thread."""

    def __init__(self, context: ListenerContext) -> None:
        self.context = context
        self.batches = self.failed_batches = self.records = self.receiver_errors = 0
        self.stream_records: dict[int, int] = {}
        self.last_batch: int | None = None

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        info = batchCompleted.batchInfo
        self.batches += 1
        self.failed_batches += info.succeeded is False
        self.records += info.numRecords
        self.last_batch = info.batchTime
        for id_, stream in info.streamIdToInputInfo.items():
            self.stream_records[id_] = self.stream_records.get(id_, 0) + stream.numRecords

    def onReceiverError(self, receiverError: ReceiverError) -> None:
        self.receiver_errors += 1

    def shown(self) -> dict[str, Any]:
        return {
            "batches": self.batches,
            "failed_batches": self.failed_batches,
            "records": self.records,
            "stream_records": self.stream_records,
            "receiver_errors": self.receiver_errors,
            "last_batch": self.last_batch,
            "series": 4 + len(self.stream_records),
        }


class Exports(Counts):
    """Reference: counts and exports on a thread of its own, from a bounded queue, and serves a port."""

    host = "127.0.0.1"

    def __init__(self, context: ListenerContext, backend: MemoryBackend) -> None:
        super().__init__(context)
        self.backend = backend
        self.pending = self.handled = self.dropped = 0
        self.queue: deque[object] = deque()
        self.changed = threading.Condition()
        self.port = socket.create_server((self.host, 0))
        self.thread = threading.Thread(target=self.work, name="exports", daemon=True)
        self.thread.start()

    def offer(self, event: object) -> None:
        with self.changed:
            if len(self.queue) < 1000:
                self.queue.append(event)
                self.changed.notify_all()
            else:
                self.drop()

    def drop(self) -> None:
        self.dropped += 1

    def work(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.queue)
                event = self.queue.popleft()
            if event is None:
                return
            self.handle(event)
            self.handled += 1

    def handle(self, event: object) -> None:
        if isinstance(event, BatchCompleted):
            super().onBatchCompleted(event)
            self.pending = min(self.pending + 1, 999)
            self.export()
        elif isinstance(event, ReceiverError):
            super().onReceiverError(event)

    def export(self) -> None:
        try:
            self.backend.send(self.pending)
        except ConnectionError:
            return
        self.pending = 0

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        self.offer(batchCompleted)

    def onReceiverError(self, receiverError: ReceiverError) -> None:
        self.offer(receiverError)

    def onStopProgress(self, stopProgress: StopProgress) -> None:
        self.handled += 1
        if stopProgress.phase == "listeners":
            self.close()

    def close(self) -> None:
        with self.changed:
            self.queue.append(None)
            self.changed.notify_all()
        self.thread.join(5)
        self.port.close()

    def shown(self) -> dict[str, Any]:
        return {**super().shown(), "handled": self.handled, "dropped": self.dropped}


def counts(cls: type[Counts] = Counts) -> Callable[[ListenerContext], ListenerProbe]:
    """The ``make`` of a listener without a backend."""

    def make(context: ListenerContext) -> ListenerProbe:
        listener = cls(context)
        return ListenerProbe(listener, listener.shown)

    make.__name__, make.__doc__ = cls.__name__, cls.__doc__
    return make


def exports(cls: type[Exports] = Exports) -> Callable[[ListenerContext], ListenerProbe]:
    """The ``make`` of a listener with a backend."""

    def make(context: ListenerContext) -> ListenerProbe:
        backend = MemoryBackend()
        listener = cls(context, backend)
        return ListenerProbe(listener, listener.shown, backend)

    make.__name__, make.__doc__ = cls.__name__, cls.__doc__
    return make


QUEUES = Capabilities(queues=True, serves=True)
EXPORTS = Capabilities(queues=True, exports=True, serves=True)


class NeedsTwoBatches(Counts):
    """At a failed checkpoint it takes the time between the last two batches."""

    previous: int | None = None

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        self.previous = self.last_batch
        super().onBatchCompleted(batchCompleted)

    def onCheckpointFailed(self, checkpointFailed: CheckpointFailed) -> None:
        if self.last_batch is not None:
            self.last_batch - self.previous  # type: ignore[operator]  # that is the defect


class KnowsPhases(Counts):
    """Finds a phase in the list that it knows."""

    def onStopProgress(self, stopProgress: StopProgress) -> None:
        PHASES.index(stopProgress.phase)


class UnpacksEvents(Counts):
    """Expects the fields of today's version, and no other."""

    def onStopProgress(self, stopProgress: StopProgress) -> None:
        _time, _phase, _left = attrs.astuple(stopProgress)


class AnswersEveryName(Counts):
    """Finds its handlers in a table, when they are called."""

    handlers = dict.fromkeys(("onReceiverStarted", "onStreamingStarted"), print)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on"):
            raise AttributeError(name)
        return lambda event: self.handlers[name] if name == "onReceiverMoved" else None


class DividesByDelay(Counts):
    """Calculates a speed from the processing delay, known or not."""

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        super().onBatchCompleted(batchCompleted)
        info = batchCompleted.batchInfo
        self.speed = info.numRecords / info.processingDelay  # type: ignore[operator]  # that is the defect


class TakesRootOfDelay(Counts):
    """Assumes that no delay is negative."""

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        super().onBatchCompleted(batchCompleted)
        math.sqrt(batchCompleted.batchInfo.schedulingDelay or 0)


class ClearsMetadata(Counts):
    """Saves memory in a mapping that is not its own."""

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        super().onBatchCompleted(batchCompleted)
        for stream in batchCompleted.batchInfo.streamIdToInputInfo.values():
            stream.metadata.clear()  # type: ignore[attr-defined]  # that is the defect


class SwapsPairs(Counts):
    """Handles two batches at a time, the later one first."""

    held: BatchCompleted | None = None

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        if self.held is None:
            self.held = batchCompleted
            return
        super().onBatchCompleted(batchCompleted)
        super().onBatchCompleted(self.held)
        self.held = None


class Slow(Counts):
    """Takes 20 ms for each batch."""

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        super().onBatchCompleted(batchCompleted)
        threading.Event().wait(0.02)


class DropsSilently(Exports):
    """After 2,000 events it accepts no more, and does not say so."""

    offered = 0

    def offer(self, event: object) -> None:
        self.offered += 1
        if self.offered <= 2000:
            super().offer(event)


class RefusesRepeated(Counts):
    """Takes a batch that it has saved for an error."""

    def __init__(self, context: ListenerContext) -> None:
        super().__init__(context)
        self.known = context.save("refuses last", lambda: self.last_batch) or 0

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        if batchCompleted.batchInfo.batchTime <= self.known:
            raise ValueError("unexpected batch")
        super().onBatchCompleted(batchCompleted)


class SavesSet(Counts):
    """Saves what JSON cannot hold."""

    def __init__(self, context: ListenerContext) -> None:
        super().__init__(context)
        context.save("streams", lambda: set(self.stream_records))


class ExportsInThrees(Exports):
    """Exports three batches at a time, and never fewer."""

    def export(self) -> None:
        if self.pending % 3 == 0:
            super().export()


class LeavesThread(Counts):
    """Starts a thread that nobody ends."""

    def __init__(self, context: ListenerContext) -> None:
        super().__init__(context)
        threading.Thread(target=threading.Event().wait, name="forgotten", daemon=True).start()


class CountsRelaunches(Counts):
    """Counts a relaunch as a further error."""

    def onReceiverStarted(self, receiverStarted: ReceiverStarted) -> None:
        self.receiver_errors += bool(receiverStarted.receiverInfo.lastErrorMessage)


class LabelsByBatch(Counts):
    """Has a series for each batch."""

    def shown(self) -> dict[str, Any]:
        return {**super().shown(), "series": 4 + self.batches}


class SteersAll(Counts):
    """Sets the rate of all streams by the whole batch."""

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        super().onBatchCompleted(batchCompleted)
        for stream in self.context.receiver_streams:
            self.context.set_rate(stream.stream_id, batchCompleted.batchInfo.numRecords + 1)


class ServesEverybody(Exports):
    """Binds to all addresses."""

    host = "0.0.0.0"  # that is the defect


class ServesSecretly(Counts):
    """Opens a port that it does not declare."""

    def __init__(self, context: ListenerContext) -> None:
        super().__init__(context)
        self.port = socket.create_server(("127.0.0.1", 0))

    def onStopProgress(self, stopProgress: StopProgress) -> None:
        self.port.close()


class KeepsBatches(Counts):
    """Keeps every batch."""

    def __init__(self, context: ListenerContext) -> None:
        super().__init__(context)
        self.kept: list[object] = []

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        super().onBatchCompleted(batchCompleted)
        self.kept.append(batchCompleted)


class HoldsAll(Exports):
    """Holds every batch until the backend takes it."""

    def __init__(self, context: ListenerContext, backend: MemoryBackend) -> None:
        self.waiting: list[object] = []
        super().__init__(context, backend)

    def handle(self, event: object) -> None:
        if isinstance(event, BatchCompleted):
            self.waiting.append(event)
        super().handle(event)
        if not self.pending:
            self.waiting.clear()


class GivesUp(Exports):
    """Exports no more after the first error."""

    has_failed = False

    def export(self) -> None:
        if not self.has_failed:
            super().export()
            self.has_failed = self.pending > 0


class ExportsOnBus(Exports):
    """Exports on the bus's thread, and lets it see the error."""

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        self.offer(batchCompleted)
        self.backend.send(0)


def _mutant(
    check: str,
    words: str,
    cls: type[Counts],
    *also: str,
    because: str = "",
    capabilities: Capabilities | None = None,
    scale: float = 1.0,
) -> Mutant:
    make = exports(cls) if issubclass(cls, Exports) else counts(cls)
    declared = capabilities or (EXPORTS if issubclass(cls, Exports) else Capabilities())
    return Mutant(
        check=check,
        words=words,
        kind="listener",
        make=make,
        capabilities=declared,
        also=also,
        because=because,
        scale=scale,
    )


MUTANTS = [
    _mutant("LI-01", "onCheckpointFailed raised TypeError", NeedsTwoBatches),
    _mutant("LI-02", "onStopProgress raised ValueError", KnowsPhases),
    _mutant("LI-02", "onStopProgress raised ValueError", UnpacksEvents),
    _mutant("LI-02", "onReceiverMoved raised KeyError", AnswersEveryName),
    _mutant("LI-03", "onBatchCompleted raised TypeError", DividesByDelay),
    _mutant("LI-04", "onBatchCompleted raised ValueError", TakesRootOfDelay),
    _mutant("LI-05", "the listener changed the event to", ClearsMetadata),
    _mutant("LI-06", "last_batch is", SwapsPairs, "LI-11", because="the last batch is a total"),
    _mutant("LI-07", "onBatchCompleted takes", Slow),
    _mutant("LI-07", "bytes of memory", KeepsBatches),
    _mutant(
        "LI-07",
        "the listener got 2016 events, and its snapshot shows",
        DropsSilently,
        capabilities=Capabilities(queues=True, serves=True),
        scale=0.2,
    ),
    _mutant("LI-08", "raised ValueError: unexpected batch", RefusesRepeated),
    _mutant("LI-08", "JSON cannot hold the values that the listener saves", SavesSet),
    _mutant("LI-09", "the backend has", ExportsInThrees, scale=0.1),
    _mutant("LI-10", "thread 'forgotten' is alive", LeavesThread, scale=0.1),
    _mutant("LI-11", "receiver_errors is 2, and that of the events is 1", CountsRelaunches),
    _mutant("LI-12", "204 after 200", LabelsByBatch),
    _mutant("LI-13", "the listener set rates for the streams [0, 1]", SteersAll),
    _mutant("LI-14", "the listener listens on 0.0.0.0:", ServesEverybody),
    _mutant("LI-14", "but Capabilities.serves is not set", ServesSecretly),
    _mutant("LI-15", "more batches take", HoldsAll),
    _mutant("LI-15", "no batch arrives", GivesUp, scale=0.2),
    _mutant("LI-15", "onBatchCompleted raised ConnectionRefusedError", ExportsOnBus),
]
