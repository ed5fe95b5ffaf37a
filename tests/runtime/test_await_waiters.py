"""``ManualClock.await_waiters``: from when it returns, moving the clock is deterministic."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.runtime.clock import ManualClock


def test_a_thread_whose_moment_has_come_does_not_wait_any_more() -> None:
    clock, never = ManualClock(), threading.Event()
    with ThreadPoolExecutor() as pool:
        for _ in range(20):
            waiting = pool.submit(clock.wait_for, 100, never)
            clock.await_waiters()
            clock.advance(100)
            # The thread may not have run since: it is not one that waits for the clock, all the same.
            with pytest.raises(TimeoutError):
                clock.await_waiters(1, timeout_s=0.001)
            waiting.result(timeout=10)


def test_steps_of_a_relative_wait_are_not_lost_between_two_moves() -> None:
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
            loop.result(timeout=5)
        finally:
            never.set()
            clock.wake()
    assert woken_at == [100 * n for n in range(1, 21)]
