"""Runs an estimator in a closed loop with a simulated workload.

Batches are cut by the interval, queue for processing, and set the rate when they end, as with a RateController. A token
bucket limits each source, as the RateLimiter does. Time is simulated; randomness comes from the seed alone.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable

from attrs import define, field, frozen

from penstock import RateEstimator
from penstock.spi import GuardedEstimator, attributed_ms
from penstock_testing.workload import Workload, at

# Estimators get times like those of a real clock.
_EPOCH_MS = 1_700_000_000_000
# Burst allowance of the limiter: the default of spark.streaming.blockInterval.
_BURST_MS = 200

MakeEstimator = Callable[[int], RateEstimator]


@frozen
class SimulatedBatch:
    """One batch.

    Attributes:
        records: records of each stream.
        rates: the rate limit of each stream when the batch was cut, records/s; infinite for none.
        scheduling_ms: scheduling delay.
        processing_ms: processing delay.
        attainable: records that it would have at the best possible rate.
    """

    records: tuple[int, ...]
    rates: tuple[float, ...]
    scheduling_ms: int
    processing_ms: int
    attainable: float


@frozen
class WorkloadRun:
    """A simulated run.

    Attributes:
        workload: the simulated workload.
        batches: all batches.
        refused: invalid estimates: not finite, or not above zero.
        reasons: the first stream's estimator's, after each batch.
        failed: errors that the estimators raised.
    """

    workload: Workload
    batches: tuple[SimulatedBatch, ...]
    refused: int
    reasons: tuple[str, ...]
    failed: int = 0


def simulate(workload: Workload, make_estimator: MakeEstimator, seed: int = 1) -> WorkloadRun:
    """Simulate a run.

    Args:
        workload: the simulated workload.
        make_estimator: creates the estimator of a stream; called with the batch interval in ms.
        seed: equal seeds make equal runs.
    """
    return _Loop(workload, make_estimator, seed).run()


@define
class _Stream:
    """A source with its limiter and estimator. Records are continuous until a batch is cut."""

    estimator: GuardedEstimator
    rate: float
    tokens: float = 1.0
    offered: float = 0.0
    stored: float = 0.0

    def flow(self, per_s: float, duration_ms: float) -> None:
        """Advance time: store what the limiter permits."""
        self.offered += per_s * duration_ms / 1000
        if math.isinf(self.rate):
            passing = self.offered
        else:
            self.tokens += self.rate * duration_ms / 1000
            passing = min(self.offered, self.tokens)
            self.tokens = min(self.tokens - passing, max(1.0, self.rate * _BURST_MS / 1000))
        self.offered -= passing
        self.stored += passing

    def cut(self) -> int:
        """Take the stored records into a batch."""
        records = int(self.stored + 1e-6)
        self.stored = max(self.stored - records, 0.0)
        return records


@define
class _Loop:
    workload: Workload
    make_estimator: MakeEstimator
    seed: int
    reasons: list[str] = field(factory=list)
    # Heap of pending batches by end time: records of each stream, processing delay, scheduling delay.
    running: list[tuple[int, int, tuple[int, ...], int, int]] = field(factory=list)

    def run(self) -> WorkloadRun:
        workload, chance = self.workload, random.Random(self.seed)
        streams = [_begin(self.make_estimator(workload.interval_ms)) for _ in workload.sources]
        batches: list[SimulatedBatch] = []
        now = free = 0
        waiting = 0.0
        for number in range(workload.batches):
            due = now + workload.interval_ms
            offers = [at(source, number) for source in workload.sources]
            while self.running and self.running[0][0] <= due:
                end, _, *batch = heapq.heappop(self.running)
                self._flow(streams, offers, end - now)
                now = end
                self._steer(streams, end, *batch)  # type: ignore[arg-type]  # the tuple's types are lost in the list
            self._flow(streams, offers, due - now)
            now = due
            records = tuple(stream.cut() for stream in streams)
            processing = self._takes(number, sum(records), chance)
            start = max(due, free)
            free = start + processing
            heapq.heappush(self.running, (free, number, records, processing, start - due))
            waiting += sum(offers) * workload.interval_ms / 1000
            attainable = min(waiting, workload.sustained(number))
            waiting -= attainable
            rates = tuple(stream.rate for stream in streams)
            batches.append(SimulatedBatch(records, rates, start - due, processing, attainable))
        refused, failed = (sum(getattr(stream.estimator, name) for stream in streams) for name in ("refused", "failed"))
        return WorkloadRun(workload, tuple(batches), refused, tuple(self.reasons), failed)

    def _flow(self, streams: list[_Stream], offers: list[float], duration_ms: int) -> None:
        for stream, per_s in zip(streams, offers, strict=True):
            stream.flow(per_s, duration_ms)

    def _takes(self, number: int, records: int, chance: random.Random) -> int:
        workload = self.workload
        # Both are drawn for every batch, so that every estimator meets the same random numbers.
        factor, pauses = (
            chance.lognormvariate(-(workload.noise**2) / 2, workload.noise),
            chance.random() < workload.pauses,
        )
        takes = workload.fixed_ms + records / at(workload.capacity, number) * 1000
        return round(takes * factor * (workload.pause_factor if pauses else 1))

    def _steer(
        self, streams: list[_Stream], end: int, records: tuple[int, ...], processing: int, scheduling: int
    ) -> None:
        for stream, count in zip(streams, records, strict=True):
            took = attributed_ms(processing, count, records)
            rate = stream.estimator.compute(_EPOCH_MS + end, count, took, scheduling)
            stream.rate = rate or stream.rate
        self.reasons.append(streams[0].estimator.reason)


def _begin(rate_estimator: RateEstimator) -> _Stream:
    estimator = rate_estimator if isinstance(rate_estimator, GuardedEstimator) else GuardedEstimator(rate_estimator)
    """The initial rate; without one the stream starts unlimited."""
    return _Stream(estimator, estimator.initial_rate or math.inf)
