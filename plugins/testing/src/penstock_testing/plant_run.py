"""Runs an estimator in a closed loop with a simulated plant.

Batches are cut by the interval, queue for processing, and set the rate when they end, as with a RateController. A token
bucket limits each source, as the RateLimiter does. Time is simulated; randomness comes from the seed alone.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable

from attrs import define, field, frozen

from penstock.plugins.specs import RateEstimator
from penstock.rate.attribution import attributed_ms
from penstock.rate.guarded_estimator import GuardedEstimator, guarded
from penstock_testing.plant import Plant, at

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
class PlantRun:
    """A simulated run.

    Attributes:
        plant: the simulated plant.
        batches: all batches.
        refused: invalid estimates: not finite, or not above zero.
        reasons: the first stream's estimator's, after each batch.
        failed: errors that the estimators raised.
    """

    plant: Plant
    batches: tuple[SimulatedBatch, ...]
    refused: int
    reasons: tuple[str, ...]
    failed: int = 0


def simulate(plant: Plant, make_estimator: MakeEstimator, seed: int = 1) -> PlantRun:
    """Simulate a run.

    Args:
        plant: the simulated plant.
        make_estimator: creates the estimator of a stream; called with the batch interval in ms.
        seed: equal seeds make equal runs.
    """
    return _Loop(plant, make_estimator, seed).run()


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
    plant: Plant
    make_estimator: MakeEstimator
    seed: int
    reasons: list[str] = field(factory=list)
    # Heap of pending batches by end time: records of each stream, processing delay, scheduling delay.
    running: list[tuple[int, int, tuple[int, ...], int, int]] = field(factory=list)

    def run(self) -> PlantRun:
        plant, chance = self.plant, random.Random(self.seed)
        streams = [_begin(guarded(self.make_estimator(plant.interval_ms))) for _ in plant.sources]
        batches: list[SimulatedBatch] = []
        now = free = 0
        waiting = 0.0
        for number in range(plant.batches):
            due = now + plant.interval_ms
            offers = [at(source, number) for source in plant.sources]
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
            waiting += sum(offers) * plant.interval_ms / 1000
            attainable = min(waiting, plant.sustained(number))
            waiting -= attainable
            rates = tuple(stream.rate for stream in streams)
            batches.append(SimulatedBatch(records, rates, start - due, processing, attainable))
        refused, failed = (sum(getattr(stream.estimator, name) for stream in streams) for name in ("refused", "failed"))
        return PlantRun(plant, tuple(batches), refused, tuple(self.reasons), failed)

    def _flow(self, streams: list[_Stream], offers: list[float], duration_ms: int) -> None:
        for stream, per_s in zip(streams, offers, strict=True):
            stream.flow(per_s, duration_ms)

    def _takes(self, number: int, records: int, chance: random.Random) -> int:
        plant = self.plant
        # Both are drawn for every batch, so that every estimator meets the same random numbers.
        factor, pauses = chance.lognormvariate(-(plant.noise**2) / 2, plant.noise), chance.random() < plant.pauses
        takes = plant.fixed_ms + records / at(plant.capacity, number) * 1000
        return round(takes * factor * (plant.pause_factor if pauses else 1))

    def _steer(
        self, streams: list[_Stream], end: int, records: tuple[int, ...], processing: int, scheduling: int
    ) -> None:
        busy = sum(count > 0 for count in records)
        for stream, count in zip(streams, records, strict=True):
            took = attributed_ms(processing, count, sum(records), busy)
            rate = stream.estimator.compute(_EPOCH_MS + end, count, took, scheduling)
            stream.rate = rate or stream.rate
        self.reasons.append(streams[0].estimator.reason)


def _begin(estimator: GuardedEstimator) -> _Stream:
    """The initial rate; without one the stream starts unlimited."""
    return _Stream(estimator, estimator.initial_rate or math.inf)
