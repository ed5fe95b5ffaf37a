"""``ManualClock.await_waiters``: once it returns, ``advance`` is deterministic."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock_testing import ManualClock


def test_due_wait_is_not_counted_even_before_its_thread_runs() -> None:
    clock, never = ManualClock(), threading.Event()
    with ThreadPoolExecutor() as pool:
        for _ in range(20):
            waiting = pool.submit(clock.wait_for, 100, never)
            clock.await_waiters()
            clock.advance(100)
            # Whether or not the thread has run since.
            with pytest.raises(TimeoutError):
                clock.await_waiters(1, timeout_s=0.001)
            waiting.result(timeout=10)


def test_relative_waits_are_not_lost_between_two_advances() -> None:
    clock, never = ManualClock(), threading.Event()
    woken_at: list[int] = []

    def every_100_ms() -> None:
        for _ in range(20):
            clock.wait_for(100, never)
            woken_at.append(clock.now_ms())

    with ThreadPoolExecutor() as pool:
        loop = pool.submit(every_100_ms)
        try:
            for _ in range(20):
                clock.await_waiters()
                clock.advance(100)
            loop.result(timeout=30)
        finally:
            never.set()
            clock.wake()
    assert woken_at == [100 * n for n in range(1, 21)]
