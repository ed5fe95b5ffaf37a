"""The machine's clock, and the one that is moved by hand."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from penstock.runtime.clock import Clock, ManualClock, SystemClock

Run = Callable[[Callable[[], object]], "Future[object]"]


@pytest.fixture
def run() -> Iterator[Run]:
    with ThreadPoolExecutor() as pool:
        yield pool.submit


@pytest.fixture
def never() -> threading.Event:
    return threading.Event()


def test_the_system_clock_says_the_wall_clock_time_in_whole_milliseconds() -> None:
    before, now, after = time.time() * 1000, SystemClock().now_ms(), time.time() * 1000
    assert isinstance(now, int)
    assert before - 1 <= now <= after


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock(5)], ids=["system", "manual"])
def test_monotonic_time_does_not_go_back(clock: Clock) -> None:
    times = [clock.monotonic_ms() for _ in range(100)]
    assert times == sorted(times)


def test_the_system_clock_waits_until_the_moment_and_not_less(never: threading.Event) -> None:
    clock = SystemClock()
    moment = clock.now_ms() + 30
    clock.wait_until(moment, never)
    assert clock.now_ms() >= moment


def test_the_system_clock_waits_for_the_duration_and_not_less(never: threading.Event) -> None:
    clock = SystemClock()
    before = clock.monotonic_ms()
    clock.wait_for(30, never)
    assert clock.monotonic_ms() - before >= 29.9


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock(1000)], ids=["system", "manual"])
def test_a_moment_that_has_come_is_not_waited_for(clock: Clock, never: threading.Event) -> None:
    clock.wait_until(clock.now_ms(), never)
    clock.wait_until(clock.now_ms() - 100, never)
    clock.wait_for(0, never)
    clock.wait_for(-5, never)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["system", "manual"])
def test_a_cancelled_wait_ends(clock: Clock, run: Run) -> None:
    for wait in (clock.wait_until, clock.wait_for):
        cancelled = threading.Event()
        waiting = run(lambda wait=wait, cancelled=cancelled: wait(clock.now_ms() + 3_600_000, cancelled))  # type: ignore[misc]
        if isinstance(clock, ManualClock):
            clock.await_waiters()
        cancelled.set()
        clock.wake()
        waiting.result(timeout=10)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["system", "manual"])
def test_a_wait_that_was_cancelled_before_returns_at_once(clock: Clock, never: threading.Event) -> None:
    never.set()
    clock.wait_until(clock.now_ms() + 3_600_000, never)
    clock.wait_for(3_600_000, never)


def test_the_manual_clock_stands_where_it_was_put() -> None:
    clock = ManualClock(12_345)
    assert (clock.now_ms(), clock.monotonic_ms()) == (12_345, 12_345.0)
    clock.advance(0)
    clock.advance(55)
    assert (clock.now_ms(), clock.monotonic_ms()) == (12_400, 12_400.0)


def test_the_manual_clock_does_not_go_back() -> None:
    clock = ManualClock(10)
    with pytest.raises(ValueError, match="-1"):
        clock.advance(-1)
    assert clock.now_ms() == 10


def test_moving_the_manual_clock_wakes_exactly_those_whose_moment_has_come(run: Run, never: threading.Event) -> None:
    clock = ManualClock()
    early, late = run(lambda: clock.wait_until(100, never)), run(lambda: clock.wait_for(200, never))
    clock.await_waiters(2)
    clock.advance(99)
    assert not early.done()
    clock.advance(1)
    early.result(timeout=10)
    assert not late.done()
    clock.advance(100)
    late.result(timeout=10)


def test_awaiting_waiters_has_a_time_out() -> None:
    with pytest.raises(TimeoutError, match="0 threads"):
        ManualClock().await_waiters(1, timeout_s=0.01)


def test_awaiting_waiters_counts_them(run: Run, never: threading.Event) -> None:
    clock = ManualClock()
    waiting = [run(lambda: clock.wait_until(10, never)) for _ in range(3)]
    clock.await_waiters(3)
    with pytest.raises(TimeoutError, match="3 threads"):
        clock.await_waiters(4, timeout_s=0.01)
    clock.advance(10)
    for each in waiting:
        each.result(timeout=10)
