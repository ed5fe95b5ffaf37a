"""``RateLimiter``: changes of the rate and stops while callers wait."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.helpers import wait_for
from tests.helpers.examples import examples

from penstock.errors import ReceiverStoppedError
from penstock.receive.rate_limiter import RateLimiter
from penstock_testing import ManualClock

BURST_MS = 200


class EventfulClock:
    """A clock for one thread: who waits is there, unless something happens before."""

    def __init__(self) -> None:
        self.time_ms = 0.0
        #: When, and what; in order.
        self.events: list[tuple[float, Callable[[], object]]] = []
        self.waits = 0

    def now_ms(self) -> int:
        return int(self.time_ms)

    def monotonic_ms(self) -> float:
        return self.time_ms

    def wait_until(self, time_ms: float, cancelled: threading.Event) -> None:
        self.wait_for(time_ms - self.time_ms, cancelled)

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        self.waits += 1
        if self.waits > 10_000:
            pytest.fail(f"somebody waits for ever, at {self.time_ms:.0f} ms")
        until_ms = self.time_ms + duration_ms
        while self.events and self.events[0][0] <= until_ms:
            time_ms, event = self.events.pop(0)
            self.time_ms = max(self.time_ms, time_ms)
            event()
            if cancelled.is_set():
                return
        self.time_ms = until_ms

    def wake(self) -> None:
        """Nobody else waits."""


def burst_at(rate: float) -> float:
    return max(1.0, rate * BURST_MS / 1000)


@given(
    wanted=st.lists(st.integers(1, 2000), min_size=1, max_size=15),
    initial=st.floats(0.5, 5000),
    changes=st.lists(st.tuples(st.floats(0, 3000), st.floats(0.5, 5000)), max_size=8),
)
@settings(max_examples=examples(100), derandomize=True, deadline=None)
def test_waiting_callers_respect_changing_rates(
    wanted: list[int], initial: float, changes: list[tuple[float, float]]
) -> None:
    clock = EventfulClock()
    limiter = RateLimiter(clock, initial, BURST_MS)
    #: From when on each rate was in force.
    rates = [(0.0, initial)]

    def change(rate: float) -> None:
        limiter.update(rate)
        rates.append((clock.time_ms, rate))

    def earned(time_ms: float) -> float:
        ends = [since for since, _ in rates[1:]] + [math.inf]
        return sum(
            (min(end, time_ms) - since) * rate / 1000
            for (since, rate), end in zip(rates, ends, strict=True)
            if since < time_ms
        )

    clock.events = [
        (time_ms, lambda rate=rate: change(rate))  # type: ignore[misc]  # a default binds the loop's variable
        for time_ms, rate in sorted(changes)
    ]
    grants: list[tuple[float, int]] = []
    for each in wanted:
        passed = limiter.acquire(each)
        assert 1 <= passed <= each
        grants.append((clock.time_ms, passed))
    widest = max(burst_at(rate) for _, rate in rates)
    for first, (since_ms, _) in enumerate(grants):
        passed = 0
        for until_ms, granted in grants[first:]:
            passed += granted
            assert passed <= widest + earned(until_ms) - earned(since_ms) + 1e-3
    # Nobody waits longer than the slowest rate explains, and a millisecond each time for the coarseness of clocks.
    slowest = min(rate for _, rate in rates)
    assert clock.time_ms <= sum(granted for _, granted in grants) / slowest * 1000 + clock.waits + 1


@pytest.mark.parametrize(("before", "after"), [(100, 10), (5000, 1), (10, 0.5)])
def test_caller_waiting_for_a_burst_passes_after_the_rate_has_fallen(before: float, after: float) -> None:
    clock = EventfulClock()
    limiter = RateLimiter(clock, before, BURST_MS)
    limiter.acquire(1)
    clock.events = [(1.0, lambda: limiter.update(after))]
    passed = limiter.acquire(10_000)
    assert 1 <= passed <= burst_at(before)
    assert clock.time_ms <= 1 + passed / after * 1000 + clock.waits


def test_records_passed_without_a_limit_are_not_owed_later() -> None:
    clock = EventfulClock()
    limiter = RateLimiter(clock, 1, BURST_MS)
    for _ in range(5):
        limiter.acquire(1)
        clock.events = [(clock.time_ms + 1, lambda: limiter.update(None))]
        assert limiter.acquire(100) == 100
        limiter.update(1)
        before_ms = clock.time_ms
        assert limiter.acquire(1) == 1
        assert clock.time_ms - before_ms <= 2000


def test_permits_granted_at_a_stop_are_not_granted_twice() -> None:
    clock = EventfulClock()
    limiter = RateLimiter(clock, 100, BURST_MS)

    def restart() -> None:
        limiter.stop()
        limiter.start()

    limiter.acquire(1)
    # A full burst is earned at the very moment of the restart.
    clock.events = [(200.0, restart)]
    grants: list[tuple[float, int]] = []
    while len(grants) < 5:
        with contextlib.suppress(ReceiverStoppedError):
            passed = limiter.acquire(20)
            grants.append((clock.time_ms, passed))
    for first, (since_ms, _) in enumerate(grants):
        for last in range(first, len(grants)):
            passed = sum(granted for _, granted in grants[first : last + 1])
            assert passed <= 20 + (grants[last][0] - since_ms) / 10 + 1e-3


def test_callers_pass_in_order_of_arrival() -> None:
    clock = ManualClock()
    limiter = RateLimiter(clock, 100, BURST_MS)
    limiter.acquire(1)
    order: list[Any] = []
    threads: list[threading.Thread] = []
    for name, wanted in (("bulk", 20), ("single", 1), ("another", 5)):
        waiting = len(threads) + 1

        def store(name: str = name, wanted: int = wanted) -> None:
            order.append((name, limiter.acquire(wanted)))

        threads.append(threading.Thread(target=store, daemon=True))
        threads[-1].start()
        clock.await_waiters(waiting)
    for _ in range(30):
        clock.advance(10)
        # A caller with permits notes it before the next caller gets any. The public `await_waiters` counts no notes.
        wait_for(lambda: len(clock._waits) + len(order) == 3, "each waits or has its permits", poll_s=0.001)
    for thread in threads:
        thread.join(10)
    assert order == [("bulk", 20), ("single", 1), ("another", 5)]
