"""Reference plugins, one for each kind: they pass every check. Mutants derive from them."""

from __future__ import annotations

from typing import Any

from attrs import define
from tests.mutants.mutant import Mutant

from penstock import RateEstimator, Receiver, ThreadReceiver
from penstock_testing import Capabilities, Feeder, MemoryFeeder, MemorySource
from penstock_testing.memory_source import MemoryConnection

#: What a ``MemoryReceiver`` can do.
MEMORY_RECEIVER = Capabilities(acknowledged=True, bounded=True)


def memory_mutant(
    check: str,
    make: type[Receiver[Any]],
    words: str,
    scale: float = 1.0,
    *also: str,
    because: str = "",
    defect: str = "",
    feeder: type[Feeder] = MemoryFeeder,
    capabilities: Capabilities = MEMORY_RECEIVER,
) -> Mutant:
    """A mutant that reads from a ``MemoryFeeder``, or one derived from it."""
    return Mutant(
        check=check,
        words=words,
        kind="receiver",
        make=make,
        feeder=feeder,
        capabilities=capabilities,
        scale=scale,
        also=also,
        because=because,
        defect=defect,
    )


class MemoryReceiver(ThreadReceiver[str]):
    """Reads a ``MemorySource``, acknowledges what is stored, reconnects, and ends with its source."""

    def __init__(self, feeder: MemoryFeeder) -> None:
        self.address = feeder.source.address
        self.connection: MemoryConnection | None = None

    def receive(self) -> None:
        # What this raises restarts the receiver: a connection that is refused or breaks, a store that fails.
        self.connection = connection = MemorySource.find(self.address).connect()
        try:
            # Asked after the connection is visible to onStop: a stop either is seen here or closes the connection.
            while not self.isStopped() and (entries := connection.read()):
                self.take(connection, entries)
        finally:
            connection.close()
        if not self.isStopped():
            self.stop("the source has ended")

    def take(self, connection: MemoryConnection, entries: list[tuple[int, str]]) -> None:
        """Store records, then acknowledge them."""
        self.store_all([record for _, record in entries])
        for position, _ in entries:
            connection.acknowledge(position)

    def onStop(self) -> None:
        if self.connection is not None:
            self.connection.close()
        super().onStop()


@define
class SteadyState:
    """What ``SteadyEstimator`` remembers: end of the last batch, and the rate."""

    time: int = -1
    rate: float = 200.0


class SteadyEstimator(RateEstimator):
    """Aims at 85 % of the interval, less a quarter of what waits; follows a batch by 30 %, a large change by 70 %.

    Attributes:
        aim: share of the interval.
        drain: weight of the scheduling delay.
        follow: weight of a batch.
        least: lowest rate, records/s.
    """

    state: SteadyState
    initial_rate: float | None = 200.0
    aim, drain, follow, least = 0.85, 0.25, 0.3, 1.0

    def __init__(self, batch_interval_ms: int) -> None:
        if batch_interval_ms <= 0:
            raise ValueError(f"batch_interval_ms={batch_interval_ms}: must be above 0")
        self.interval_ms = batch_interval_ms
        self.state = SteadyState(rate=self.initial_rate or 200.0)
        self.reason = "no batch yet"

    def begin_with(self, rate: float) -> None:
        self.state.rate = rate

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        if time <= self.state.time or numElements <= 0 or processingDelay <= 0:
            self.reason = "batch ignored"
            return None
        self.state.time = time
        self.state.rate = self.limited(self.wanted(numElements, processingDelay, schedulingDelay))
        self.reason = f"{numElements} records took {processingDelay} ms"
        return self.state.rate

    def wanted(self, records: int, took_ms: int, waited_ms: int) -> float:
        """The rate that fits the batch."""
        return records * 1000 / took_ms * max(self.aim - self.drain * waited_ms / self.interval_ms, 0.05)

    def limited(self, wanted: float) -> float:
        """The next rate on the way to it."""
        rate = self.state.rate
        follow = self.follow if abs(wanted - rate) < 0.5 * rate else max(self.follow, 0.7)
        return max(min(rate + follow * (wanted - rate), 2 * rate, 1e15), self.least)
