"""``RateLimiter``: over any time t no more than rate x t + burst records pass."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.helpers import wait_for
from tests.helpers.eventful_clock import EventfulClock
from tests.helpers.examples import examples

from penstock.errors import ReceiverStoppedError
from penstock.receive.rate_limiter import RateLimiter
from penstock.runtime.clock import SystemClock
from penstock_testing import ManualClock

BURST_MS = 200
Background = Callable[[Callable[[], Any]], "Future[Any]"]


def limiter(clock: Any, rate: float | None = None, burst_ms: int = 200) -> RateLimiter:
    return RateLimiter(clock, rate, burst_ms)


def test_without_a_limit_everything_passes_at_once() -> None:
    limit = limiter(ManualClock())
    assert [limit.acquire(1), limit.acquire(10**9)] == [1, 10**9]
    limit.stop()
    assert limit.acquire(10**9) == 10**9


OPERATION = st.one_of(
    st.tuples(st.just("acquire"), st.integers(1, 5000)),
    st.tuples(st.just("acquire"), st.just(1)),
    st.tuples(st.just("idle"), st.floats(0, 5000)),
    st.tuples(st.just("update"), st.floats(0.01, 5000)),
    st.tuples(st.just("update"), st.none()),
)


@given(
    operations=st.lists(OPERATION, min_size=1, max_size=30),
    initial=st.floats(0.01, 5000),
    burst_ms=st.sampled_from([1, 50, 200, 1000]),
)
@settings(max_examples=examples(100), derandomize=True, deadline=None)
def test_over_any_time_no_more_than_rate_times_time_and_a_burst_pass(
    operations: list[tuple[str, Any]], initial: float, burst_ms: int
) -> None:
    clock = EventfulClock()
    limit = limiter(clock, initial, burst_ms)
    # For each grant: what could have been earned until then, the burst at that time, how many passed.
    grants: list[tuple[float, float, int]] = []
    earned, since = 0.0, 0.0
    rate: float | None = initial
    for operation, value in operations:
        if operation == "acquire":
            passed = limit.acquire(value)
            assert 1 <= passed <= value
            if rate is None:
                grants.clear()
                continue
            earned, since = earned + (clock.time_ms - since) * rate / 1000, clock.time_ms
            grants.append((earned, max(1.0, rate * burst_ms / 1000), passed))
        elif operation == "idle":
            clock.time_ms += value
        else:
            earned, since = earned + (0 if rate is None else (clock.time_ms - since) * rate / 1000), clock.time_ms
            limit.update(value)
            rate = value
    for first in range(len(grants)):
        earned_before, burst, _ = grants[first]
        passed = 0
        for earned_until, _, granted in grants[first:]:
            passed += granted
            assert passed <= burst + earned_until - earned_before + 1e-6


@given(rate=st.floats(0.01, 100_000), wanted=st.lists(st.integers(1, 10_000), min_size=1, max_size=10))
@settings(max_examples=examples(50), derandomize=True, deadline=None)
def test_waiting_caller_passes_as_soon_as_permitted(rate: float, wanted: list[int]) -> None:
    clock = EventfulClock()
    limit = limiter(clock, rate)
    total = 0
    for count in wanted:
        left = count
        while left:
            left -= limit.acquire(left)
        total += count
    # A millisecond a wait for the coarseness of clocks; a wait is for a full burst, or for the rest.
    waits = sum(count / max(1.0, rate * 0.2) + 1 for count in wanted)
    assert clock.time_ms <= total / rate * 1000 + 2 * waits


@pytest.mark.parametrize("rate", [0.5, 1, 3])
def test_one_record_may_always_pass_and_then_one_each_period(rate: float) -> None:
    clock = EventfulClock()
    limit = limiter(clock, rate)
    times = []
    for _ in range(4):
        assert limit.acquire(10) == 1
        times.append(clock.time_ms)
    assert times == pytest.approx([n * 1000 / rate for n in range(4)], abs=4)


def test_lower_rate_revokes_the_permits_of_the_higher_one() -> None:
    clock = EventfulClock()
    limit = limiter(clock, rate=1000, burst_ms=200)
    clock.time_ms += 1000
    limit.update(10)
    assert limit.acquire(1000) == 2


def test_higher_rate_wakes_waiting_callers(background: Background) -> None:
    clock = ManualClock()
    limit = limiter(clock, rate=0.001)
    assert limit.acquire(1) == 1
    waiting = background(lambda: limit.acquire(1))
    clock.await_waiters()
    clock.advance(10)
    limit.update(100)
    clock.await_waiters()
    clock.advance(10)
    assert waiting.result(timeout=10) == 1


def test_lifted_limit_wakes_waiting_callers(background: Background) -> None:
    clock = ManualClock()
    limit = limiter(clock, rate=0.001)
    assert limit.acquire(1) == 1
    waiting = background(lambda: limit.acquire(500))
    clock.await_waiters()
    limit.update(None)
    assert waiting.result(timeout=10) == 500


def test_stopped_limiter_passes_a_whole_request_that_needs_no_wait_and_no_part_of_another() -> None:
    clock = ManualClock()
    limit = limiter(clock, rate=100, burst_ms=200)
    clock.advance(50)
    limit.stop()
    for more_than_earned in (7, 1000):
        with pytest.raises(ReceiverStoppedError):
            limit.acquire(more_than_earned)
    assert limit.acquire(6) == 6
    with pytest.raises(ReceiverStoppedError):
        limit.acquire(1)


# -- changes of the rate and stops while callers wait --


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
    for count in wanted:
        passed = limiter.acquire(count)
        assert 1 <= passed <= count
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


# -- small rates, and a stop that a start follows at once --


class BusyClock:
    """A clock on which another thread takes each permit as soon as it is earned, while the caller waits."""

    def __init__(self, period_ms: float) -> None:
        self.time_ms = 0.0
        self._period_ms = period_ms
        self.limiter: RateLimiter
        self._nested = False

    def now_ms(self) -> int:
        return int(self.time_ms)

    def monotonic_ms(self) -> float:
        return self.time_ms

    def elapsed_ms(self) -> float:
        return self.time_ms

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        if self._nested:
            # The other thread waits for its next permit, so the caller is next.
            raise InterruptedError
        self._nested = True
        until = self.time_ms + duration_ms
        while self.time_ms < until:
            self.time_ms += self._period_ms
            try:
                self.limiter.acquire(1)
            except InterruptedError:
                continue
        self._nested = False
        if self.time_ms > 60_000:
            pytest.fail("a bulk store has waited for a minute for 10 records at 100 records/s, and waits still")

    def wake(self) -> None:
        """Nobody waits."""


def test_store_all_is_not_starved_by_single_stores() -> None:
    clock = BusyClock(period_ms=10)
    clock.limiter = RateLimiter(clock, rate=100, burst_ms=200)
    clock.limiter.acquire(1)
    assert clock.limiter.acquire(10) > 0


@pytest.mark.parametrize("rate", [1e-9, 1e-300])
def test_very_small_rate_is_waited_for(rate: float) -> None:
    limiter = RateLimiter(SystemClock(), rate=1000, burst_ms=200)
    # The saved permit passes; the next one is earned after many years.
    limiter.update(rate)
    limiter.acquire(1)
    stopping = threading.Timer(0.05, limiter.stop)
    stopping.start()
    with pytest.raises(ReceiverStoppedError):
        limiter.acquire(1)
    stopping.join(10)


def test_stop_fails_waiting_callers_even_if_a_start_follows_at_once() -> None:
    # A restart without delay: the thread of the last run must not store into the next one.
    clock = ManualClock()
    limiter = RateLimiter(clock, rate=1, burst_ms=200)
    limiter.acquire(1)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(limiter.acquire, 1)
        clock.await_waiters()
        limiter.stop()
        limiter.start()
        try:
            with pytest.raises(ReceiverStoppedError):
                waiting.result(timeout=30)
        finally:
            limiter.stop()
