"""Rate limits of 900 receivers at once, simulated: no period of ten seconds has more records than they permit."""

from __future__ import annotations

import random
import threading
from bisect import bisect_right
from functools import partial
from itertools import accumulate
from typing import Any

import pytest
from tests.helpers.eventful_clock import EventfulClock

from penstock.conf import Settings
from penstock.receive.rate_limiter import RateLimiter

RECEIVERS = 900
RUN_MS = 16_000
PERIOD_MS = 10_000
BURST_MS = Settings.parse({}).burst_ms
# How often an estimator changes a rate.
CHANGE_MS = 4_000


class SimulatedReceiver:
    """A receiver that stores as much as it may, and pauses at times. Its rate limit changes. Seeded."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.rates = [rng.choice((0.5, 3.0, 40.0, 250.0)) * rng.uniform(0.5, 2) for _ in range(0, RUN_MS, CHANGE_MS)]
        #: What the rates permit in all before each change, without a burst.
        self.permitted = [0.0, *accumulate(rate * CHANGE_MS / 1000 for rate in self.rates)]
        self.times_ms: list[float] = []
        counts: list[int] = []
        clock: Any = EventfulClock()
        limiter = RateLimiter(clock, self.rates[0], BURST_MS)
        for number, rate in enumerate(self.rates):
            clock.events.append((number * CHANGE_MS, partial(limiter.update, rate)))
        while clock.time_ms < RUN_MS:
            if rng.random() < 0.01:
                clock.wait_for(rng.uniform(0, 5_000), threading.Event())
            counts.append(limiter.acquire(rng.choice((10, 1_000_000))))
            self.times_ms.append(clock.time_ms)
        #: Stored in all before each store, and at the end.
        self.totals = [0, *accumulate(counts)]

    def stored(self, end_ms: float) -> int:
        """The records stored in the period that ends at this time, both ends included."""
        before = bisect_right(self.times_ms, end_ms - PERIOD_MS - 1e-6)
        return self.totals[bisect_right(self.times_ms, end_ms)] - self.totals[before]

    def limit(self, end_ms: float) -> float:
        """The records that the rates and one burst permit in this period."""
        burst = max(1.0, max(self.rates) * BURST_MS / 1000)
        return self._earned(end_ms) - self._earned(end_ms - PERIOD_MS) + burst + 1e-3

    def _earned(self, time_ms: float) -> float:
        number = min(int(max(time_ms, 0) // CHANGE_MS), len(self.rates) - 1)
        return self.permitted[number] + self.rates[number] * (max(time_ms, 0) - number * CHANGE_MS) / 1000


@pytest.fixture(scope="module")
def receivers() -> list[SimulatedReceiver]:
    return [SimulatedReceiver(seed) for seed in range(RECEIVERS)]


def test_no_receiver_exceeds_its_limit_in_any_ten_seconds(receivers: list[SimulatedReceiver]) -> None:
    over = [
        (seed, end_ms, each.stored(end_ms), each.limit(end_ms))
        for seed, each in enumerate(receivers)
        for end_ms in each.times_ms
        if each.stored(end_ms) > each.limit(end_ms)
    ]
    assert over == []


def test_receivers_together_do_not_exceed_their_limits_and_use_most_of_them(receivers: list[SimulatedReceiver]) -> None:
    shares = [
        sum(each.stored(end_ms) for each in receivers) / sum(each.limit(end_ms) for each in receivers)
        for end_ms in range(PERIOD_MS, RUN_MS, 250)
    ]
    assert 0.7 < min(shares) <= max(shares) <= 1
