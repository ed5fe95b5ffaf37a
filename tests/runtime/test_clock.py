"""``SystemClock`` and ``ManualClock``."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from penstock.runtime.clock import Clock, SystemClock
from penstock_testing import ManualClock

Run = Callable[[Callable[[], object]], "Future[object]"]


class RecordingEvent(threading.Event):
    """Is never set, and records the timeouts of the waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.timeouts: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.timeouts.append(timeout)
        return False


@pytest.fixture
def run() -> Iterator[Run]:
    with ThreadPoolExecutor() as pool:
        yield pool.submit


@pytest.fixture
def never() -> threading.Event:
    return threading.Event()


def test_system_clock_returns_wall_clock_time_in_whole_milliseconds() -> None:
    before, now, after = time.time() * 1000, SystemClock().now_ms(), time.time() * 1000
    assert isinstance(now, int)
    assert before - 1 <= now <= after


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock(5)], ids=["system", "manual"])
def test_monotonic_time_never_goes_back(clock: Clock) -> None:
    times = [clock.monotonic_ms() for _ in range(100)]
    assert times == sorted(times)


def test_system_clock_waits_for_the_duration(never: threading.Event) -> None:
    clock = SystemClock()
    before = clock.monotonic_ms()
    clock.wait_for(30, never)
    assert clock.monotonic_ms() - before >= 29.9


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock(1000)], ids=["system", "manual"])
def test_duration_that_is_over_is_not_waited_for(clock: Clock) -> None:
    never = RecordingEvent()
    clock.wait_for(0, never)
    clock.wait_for(-5, never)
    assert set(never.timeouts) <= {0}


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["system", "manual"])
def test_cancelled_wait_ends(clock: Clock, run: Run) -> None:
    cancelled = threading.Event()
    waiting = run(lambda: clock.wait_for(3_600_000, cancelled))
    if isinstance(clock, ManualClock):
        clock.await_waiters()
    cancelled.set()
    clock.wake()
    waiting.result(timeout=10)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["system", "manual"])
def test_wait_with_a_set_event_returns_at_once(clock: Clock, never: threading.Event) -> None:
    never.set()
    clock.wait_for(3_600_000, never)


def test_manual_clock_moves_by_advance_only() -> None:
    clock = ManualClock(12_345)
    assert (clock.now_ms(), clock.monotonic_ms()) == (12_345, 12_345.0)
    clock.advance(0)
    clock.advance(55)
    assert (clock.now_ms(), clock.monotonic_ms()) == (12_400, 12_400.0)


def test_manual_clock_cannot_go_back() -> None:
    clock = ManualClock(10)
    with pytest.raises(ValueError, match="-1"):
        clock.advance(-1)
    assert clock.now_ms() == 10


@pytest.mark.parametrize("step_ms", [-50, 50])
def test_manual_step_moves_the_wall_clock_only(step_ms: int) -> None:
    clock = ManualClock(100)
    clock.step(step_ms)
    assert (clock.now_ms(), clock.monotonic_ms(), clock.elapsed_ms()) == (100 + step_ms, 100.0, 100.0)


def test_step_ends_no_wait(run: Run, never: threading.Event) -> None:
    clock = ManualClock()
    waiting = run(lambda: clock.wait_for(100, never))
    clock.await_waiters()
    clock.step(3_600_000)
    clock.advance(99)
    assert not waiting.done()
    clock.advance(1)
    waiting.result(timeout=10)


def test_advance_wakes_exactly_the_waits_that_are_due(run: Run, never: threading.Event) -> None:
    clock = ManualClock()
    early, late = run(lambda: clock.wait_for(100, never)), run(lambda: clock.wait_for(200, never))
    clock.await_waiters(2)
    clock.advance(99)
    assert not early.done()
    clock.advance(1)
    early.result(timeout=10)
    assert not late.done()
    clock.advance(100)
    late.result(timeout=10)


def test_await_waiters_times_out() -> None:
    with pytest.raises(TimeoutError, match="0 threads"):
        ManualClock().await_waiters(1, timeout_s=0.01)


def test_await_waiters_counts_waiting_threads(run: Run, never: threading.Event) -> None:
    clock = ManualClock()
    waiting = [run(lambda: clock.wait_for(10, never)) for _ in range(3)]
    clock.await_waiters(3)
    with pytest.raises(TimeoutError, match="3 threads"):
        clock.await_waiters(4, timeout_s=0.01)
    clock.advance(10)
    for each in waiting:
        each.result(timeout=10)
