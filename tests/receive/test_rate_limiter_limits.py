"""``RateLimiter`` at its limits: very small rates, and a stop that a start follows at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.errors import ReceiverStoppedError
from penstock.receive.rate_limiter import RateLimiter
from penstock.runtime.clock import SystemClock
from penstock_testing import ManualClock


class BusyClock:
    """A clock on which another thread takes each permit as soon as it is earned, while the caller waits."""

    def __init__(self, period_ms: float) -> None:
        self.time_ms, self._period_ms = 0.0, period_ms
        self.limiter: RateLimiter
        self._nested = False

    def now_ms(self) -> int:
        return int(self.time_ms)

    def monotonic_ms(self) -> float:
        return self.time_ms

    def wait_until(self, time_ms: float, cancelled: threading.Event) -> None:
        self.wait_for(time_ms - self.time_ms, cancelled)

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
