"""``RateLimiter``: over any time t no more than rate x t + burst records pass."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.helpers.examples import examples

from penstock.errors import ReceiverStoppedError
from penstock.receive.rate_limiter import RateLimiter
from penstock_testing import ManualClock

Background = Callable[[Callable[[], Any]], "Future[Any]"]


class JumpingClock:
    """A clock for one thread: who waits is there."""

    def __init__(self) -> None:
        self.time_ms = 0.0

    def now_ms(self) -> int:
        return int(self.time_ms)

    def monotonic_ms(self) -> float:
        return self.time_ms

    def wait_until(self, time_ms: float, cancelled: threading.Event) -> None:
        self.time_ms = max(self.time_ms, time_ms)

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        self.time_ms += max(duration_ms, 0)

    def wake(self) -> None:
        """Nobody waits."""


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
    clock = JumpingClock()
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
    clock = JumpingClock()
    limit = limiter(clock, rate)
    total = 0
    for each in wanted:
        left = each
        while left:
            left -= limit.acquire(left)
        total += each
    # A millisecond a wait for the coarseness of clocks; a wait is for a full burst, or for the rest.
    waits = sum(each / max(1.0, rate * 0.2) + 1 for each in wanted)
    assert clock.time_ms <= total / rate * 1000 + 2 * waits


@pytest.mark.parametrize("rate", [0.5, 1, 3])
def test_one_record_may_always_pass_and_then_one_each_period(rate: float) -> None:
    clock = JumpingClock()
    limit = limiter(clock, rate)
    times = []
    for _ in range(4):
        assert limit.acquire(10) == 1
        times.append(clock.time_ms)
    assert times == pytest.approx([n * 1000 / rate for n in range(4)], abs=4)


def test_unused_permits_are_saved_for_the_burst() -> None:
    clock = JumpingClock()
    limit = limiter(clock, rate=100, burst_ms=200)
    clock.time_ms += 3_600_000
    assert limit.acquire(1000) == 20
    assert clock.time_ms == 3_600_000
    assert limit.acquire(1000) == 20
    assert clock.time_ms == pytest.approx(3_600_200)


def test_lower_rate_revokes_the_permits_of_the_higher_one() -> None:
    clock = JumpingClock()
    limit = limiter(clock, rate=1000, burst_ms=200)
    clock.time_ms += 1000
    limit.update(10)
    assert limit.acquire(1000) == 2


def test_limiter_waits_on_the_clock(background: Background) -> None:
    clock = ManualClock()
    limit = limiter(clock, rate=10)
    assert limit.acquire(1) == 1
    waiting = background(lambda: limit.acquire(1))
    clock.await_waiters()
    clock.advance(99)
    clock.await_waiters()
    assert not waiting.done()
    clock.advance(1)
    assert waiting.result(timeout=10) == 1


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


def test_stop_fails_all_waiting_callers(background: Background) -> None:
    clock = ManualClock()
    limit = limiter(clock, rate=0.001)
    assert limit.acquire(1) == 1
    waiting = [background(lambda: limit.acquire(1)) for _ in range(3)]
    clock.await_waiters(3)
    limit.stop()
    for each in waiting:
        with pytest.raises(ReceiverStoppedError, match="stopped"):
            each.result(timeout=10)


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


def test_callers_wait_again_after_a_start(background: Background) -> None:
    clock = ManualClock()
    limit = limiter(clock, rate=10)
    limit.acquire(1)
    limit.stop()
    limit.start()
    waiting = background(lambda: limit.acquire(1))
    clock.await_waiters()
    clock.advance(100)
    assert waiting.result(timeout=10) == 1


@pytest.mark.parametrize("wanted", [1, 7, 1000], ids=["single", "some", "bulk"])
def test_many_threads_share_one_budget(wanted: int, background: Background) -> None:
    clock = ManualClock()
    limit = limiter(clock, rate=1000, burst_ms=100)
    passed = [0] * 8

    def store(thread: int) -> None:
        try:
            while True:
                passed[thread] += limit.acquire(wanted)
        except ReceiverStoppedError:
            return

    workers = [background(lambda thread=thread: store(thread)) for thread in range(8)]  # type: ignore[misc]  # mypy
    for step in range(1, 101):
        clock.await_waiters(8)
        assert sum(passed) <= (step - 1) * 10 + 100
        clock.advance(10)
    clock.await_waiters(8)
    total = sum(passed)
    limit.stop()
    for worker in workers:
        worker.result(timeout=10)
    assert total <= 1000 + 100
    assert sum(passed) <= 1000 + 100
    assert total >= 1000 - 200
