"""Mutants of the rate estimator checks RE-01 to RE-24."""

from __future__ import annotations

import math
import random
import threading
import time as clock
from collections.abc import Callable
from typing import Any, ClassVar

from attrs import define, field
from tests.mutants.mutant import Mutant
from tests.mutants.references import SteadyEstimator, SteadyState

from penstock_testing import Capabilities

DAY_MS = 86_400_000
Batch = tuple[int, int, int, int]


class Answers(SteadyEstimator):
    """Base of the mutants that answer wrongly: ``answer`` gets the batch and the sound rate."""

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        batch = (time, numElements, processingDelay, schedulingDelay)
        return self.answer(batch, super().compute(*batch))

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        return rate


class GivesNaN(Answers):
    """Has no answer for a round number of records."""

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        return math.nan if batch[1] == 10**6 else rate


class GivesNaNLater(Answers):
    """Has no answer after 500 batches."""

    calls = 0

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        self.calls += 1
        return math.nan if self.calls > 500 else rate


class HasNoFloor(SteadyEstimator):
    """Decays with the capacity, however low."""

    least = 1e-12


class HasNoCeiling(SteadyEstimator):
    """Declares a maximum that it exceeds."""


class LowersWhenEmpty(Answers):
    """Takes an empty batch for a reason to slow down."""

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        if batch[1] == 0:
            self.state.rate *= 0.9
        return rate


class DoublesAtZeroTime(Answers):
    """Takes a batch of 0 ms for an infinitely fast one."""

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        return self.state.rate * 2 if batch[2] == 0 else rate


class IgnoresTime(SteadyEstimator):
    """Uses batches of any time."""

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        self.state.time = -1
        return super().compute(time, numElements, processingDelay, schedulingDelay)


class LosesFirstRate(SteadyEstimator):
    """Forgets its own rate when the program gives one."""

    def begin_with(self, rate: float) -> None:
        self.state.rate = None  # type: ignore[assignment]  # that is the defect


class TakesAnyInterval(SteadyEstimator):
    """Accepts an interval without length."""

    def __init__(self, batch_interval_ms: int) -> None:
        super().__init__(max(batch_interval_ms, 1))


class Patient(SteadyEstimator):
    """Lowers the rate only after six batches in a row that took too long."""

    slow = 0

    def wanted(self, records: int, took_ms: int, waited_ms: int) -> float:
        self.slow = self.slow + 1 if took_ms > 1.5 * self.interval_ms else 0
        return self.state.rate if 0 < self.slow < 6 else super().wanted(records, took_ms, waited_ms)


class SaysItIsConstant(SteadyEstimator):
    """Adapts, and declares that it does not."""


class StaysLow(SteadyEstimator):
    """After a long wait it raises the rate by a thousandth a batch only."""

    hurt = False

    def wanted(self, records: int, took_ms: int, waited_ms: int) -> float:
        self.hurt = self.hurt or waited_ms > 4 * self.interval_ms
        wanted = super().wanted(records, took_ms, waited_ms)
        return min(wanted, 1.001 * self.state.rate) if self.hurt else wanted


class StartsSlowly(SteadyEstimator):
    """Begins with one record and adds a tenth per batch until it has found the capacity."""

    initial_rate = 1.0
    is_settled = False

    def limited(self, wanted: float) -> float:
        self.is_settled = self.is_settled or wanted < self.state.rate
        return super().limited(wanted) if self.is_settled else 1.1 * self.state.rate


class StartsRecklessly(SteadyEstimator):
    """Begins far above any capacity and approaches it slowly."""

    initial_rate, least = 100_000.0, 100.0

    def limited(self, wanted: float) -> float:
        falls = wanted < self.state.rate and self.state.rate > 9_000
        return self.state.rate + 0.4 * (wanted - self.state.rate) if falls else super().limited(wanted)


class NeverDrains(SteadyEstimator):
    """Matches the capacity and does not see what waits."""

    aim, drain = 1.0, 0.0


class KeepsHalf(SteadyEstimator):
    """Never goes below half of the highest rate that it had."""

    highest = 0.0

    def limited(self, wanted: float) -> float:
        rate = super().limited(max(wanted, self.highest / 2))
        self.highest = max(rate, self.highest)
        return rate


class StopsLearning(SteadyEstimator):
    """After 60 batches it takes the highest rate that it had for the capacity."""

    batches, highest = 0, 0.0

    def limited(self, wanted: float) -> float:
        self.batches += 1
        rate = super().limited(wanted)
        if self.batches <= 60:
            self.highest = max(rate, self.highest)
        return min(rate, 1.05 * self.highest)


class FollowsNoise(SteadyEstimator):
    """Follows each batch completely."""

    follow = 1.0


class WindsUp(SteadyEstimator):
    """Raises the rate by half for each batch that is smaller than it."""

    def wanted(self, records: int, took_ms: int, waited_ms: int) -> float:
        if records < 0.5 * self.state.rate * self.interval_ms / 1000 and not waited_ms:
            return self.state.rate * 3
        return super().wanted(records, took_ms, waited_ms)


class StarvesAtFixedCost(SteadyEstimator):
    """Takes the duration of a small batch for the cost of its records."""

    def wanted(self, records: int, took_ms: int, waited_ms: int) -> float:
        wanted = super().wanted(records, took_ms, waited_ms)
        return wanted * 0.6 if took_ms > 0.6 * self.interval_ms and records < 1500 else wanted


class NeglectsSmall(SteadyEstimator):
    """Lowers the rate of a stream that has had about 1,000 records a batch for long."""

    small = 0

    def wanted(self, records: int, took_ms: int, waited_ms: int) -> float:
        self.small = self.small + 1 if records < 1100 and took_ms < 0.3 * self.interval_ms else 0
        return 500.0 if self.small > 25 else super().wanted(records, took_ms, waited_ms)


class ReadsClock(Answers):
    """Remembers when it was called."""

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        self.called = clock.time()
        return rate


class DrawsRates(SteadyEstimator):
    """Varies each rate by chance."""

    def __init__(self, batch_interval_ms: int) -> None:
        super().__init__(batch_interval_ms)
        self.chance = random.Random()

    def limited(self, wanted: float) -> float:
        return super().limited(wanted) * self.chance.uniform(0.99, 1.01)


class HidesState(SteadyEstimator):
    """Remembers an average outside its state."""

    average = 0.0

    def wanted(self, records: int, took_ms: int, waited_ms: int) -> float:
        wanted = super().wanted(records, took_ms, waited_ms)
        self.average = wanted if not self.average else 0.8 * self.average + 0.2 * wanted
        return 0.9 * wanted + 0.1 * self.average


class SaysItHasNoState(SteadyEstimator):
    """Has a state, and does not declare it."""


class SpoiltByOutage(Answers):
    """A burst after a wait of a day moves its time a century ahead."""

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        if batch[1] > 10**10 and batch[3] >= DAY_MS:
            self.state.time += 36_500 * DAY_MS
        return rate


@define
class LongState(SteadyState):
    """Holds every rate."""

    rates: list[float] = field(factory=list)


class RemembersAll(Answers):
    """Its state grows with each batch."""

    state: LongState

    def __init__(self, batch_interval_ms: int) -> None:
        super().__init__(batch_interval_ms)
        self.state = LongState()

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        self.state.rates.append(self.state.rate)
        return rate


class KeepsTimes(Answers):
    """Keeps the time of each batch outside its state."""

    def __init__(self, batch_interval_ms: int) -> None:
        super().__init__(batch_interval_ms)
        self.times: list[int] = []

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        self.times.append(batch[0])
        return rate


class Expensive(Answers):
    """Searches for a rate among 200,000, for a while."""

    calls = 0

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        self.calls += 1
        if 500 < self.calls <= 600:
            sum(range(200_000))
        return rate


class StartsThread(Answers):
    """Starts a thread with its first batch."""

    thread: threading.Thread | None = None

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        if self.thread is None:
            self.thread = threading.Thread(target=threading.Event().wait, name="forgotten", daemon=True)
            self.thread.start()
        return rate


class SharesRecords(SteadyEstimator):
    """Averages the records of all instances."""

    total: ClassVar[dict[str, float]] = {"records": 0.0, "ms": 0.0}

    def wanted(self, records: int, took_ms: int, waited_ms: int) -> float:
        for name, value in (("records", records), ("ms", took_ms)):
            self.total[name] = 0.5 * self.total[name] + value
        return 0.9 * super().wanted(records, took_ms, waited_ms) + 85 * self.total["records"] / self.total["ms"]


class SaysNothing(Answers):
    """Gives no reason."""

    def answer(self, batch: Batch, rate: float | None) -> float | None:
        self.reason = ""
        return rate


RESTORES = Capabilities(restores=True)


def _mutant(
    check: str,
    words: str,
    make: Callable[[int], Any],
    *also: str,
    because: str = "",
    capabilities: Capabilities = RESTORES,
) -> Mutant:
    return Mutant(
        check=check,
        words=words,
        kind="rate-estimator",
        make=make,
        capabilities=capabilities,
        also=also,
        because=because,
    )


MUTANTS = [
    _mutant("RE-01", "compute returned nan", GivesNaN),
    _mutant("RE-01", "compute returned nan", GivesNaNLater),
    _mutant("RE-02", "outside of the declared 1e-05 to", HasNoFloor),
    _mutant(
        "RE-02",
        "outside of the declared 1 to 20000",
        HasNoCeiling,
        capabilities=Capabilities(restores=True, min_rate=1, max_rate=2e4),
    ),
    _mutant("RE-03", "after a batch that must be ignored", LowersWhenEmpty),
    _mutant("RE-04", "changed the rate from", DoublesAtZeroTime),
    _mutant("RE-05", "changed the rate from", IgnoresTime),
    _mutant("RE-06", "compute raised TypeError", LosesFirstRate),
    _mutant("RE-07", "make returned an estimator for an interval of 0 ms", TakesAnyInterval),
    _mutant("RE-08", "the rate was", Patient),
    _mutant(
        "RE-08",
        "Capabilities.adapts is not set, but the rate changed from",
        SaysItIsConstant,
        capabilities=Capabilities(restores=True, adapts=False),
    ),
    _mutant("RE-09", "not settled", StaysLow),
    _mutant("RE-10", "settled after", StartsSlowly),
    _mutant("RE-11", "batch 12 waits 11.7 intervals", StartsRecklessly),
    _mutant(
        "RE-12",
        "batches still wait 7.3 intervals",
        NeverDrains,
        "RE-09",
        "RE-13",
        because="after a step the workload must have no backlog",
    ),
    _mutant("RE-13", "not settled", KeepsHalf),
    _mutant("RE-14", "not settled", StopsLearning),
    _mutant("RE-15", "the rate changes by", FollowsNoise),
    _mutant("RE-16", "makes batches wait", WindsUp),
    _mutant("RE-17", "of the attainable records", StarvesAtFixedCost),
    _mutant("RE-18", "the small one", NeglectsSmall),
    _mutant("RE-19", "compute calls time.time", ReadsClock),
    _mutant(
        "RE-19",
        "in the next",
        DrawsRates,
        "RE-03",
        "RE-04",
        "RE-05",
        "RE-20",
        "RE-23",
        because="each compares two runs, which chance makes different",
    ),
    _mutant("RE-20", "without a restart", HidesState),
    _mutant(
        "RE-20",
        "Capabilities.restores is not set",
        SaysItHasNoState,
        "PK-14",
        because="it compares the flags with the behaviour",
        capabilities=Capabilities(),
    ),
    _mutant("RE-21", "no rate for 20 plausible batches", SpoiltByOutage),
    _mutant("RE-22", "the saved state has", RemembersAll),
    _mutant("RE-22", "bytes of memory", KeepsTimes),
    _mutant("RE-22", "ms of CPU", Expensive),
    _mutant("RE-22", "thread 'forgotten' is alive", StartsThread),
    _mutant(
        "RE-23",
        "beside another estimator",
        SharesRecords,
        "RE-03",
        "RE-04",
        "RE-05",
        "RE-19",
        "RE-20",
        because="each compares two estimators, the second of which finds the records of the first",
    ),
    _mutant("RE-24", "reason is ''", SaysNothing),
]
