"""``ManualClock``: a clock that only the test moves."""

from __future__ import annotations

import threading

from penstock.spi import Clock


class ManualClock(Clock):
    """A clock that only ``advance`` and ``step`` move: tests need no sleeping and are deterministic."""

    def __init__(self, time_ms: int = 0) -> None:
        self._time_ms = time_ms
        # Distance by which the wall clock was set.
        self._stepped_ms = 0
        self._condition = threading.Condition()
        # The due time of every current wait.
        self._waits: dict[object, float] = {}

    def now_ms(self) -> int:
        with self._condition:
            return self._time_ms + self._stepped_ms

    def monotonic_ms(self) -> float:
        with self._condition:
            return float(self._time_ms)

    def advance(self, duration_ms: int) -> None:
        """Move the clock forward and end the waits that are due."""
        if duration_ms < 0:
            raise ValueError(f"duration_ms={duration_ms}: a manual clock only advances; step sets it back")
        with self._condition:
            self._time_ms += duration_ms
            # A wait that is due counts as ended, even if its thread has not run yet.
            self._waits = {wait: until_ms for wait, until_ms in self._waits.items() if until_ms > self._time_ms}
            self._condition.notify_all()

    def step(self, duration_ms: int) -> None:
        """Set the wall clock forward, or back by a negative duration; no time passes, and no wait ends."""
        with self._condition:
            self._stepped_ms += duration_ms

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        with self._condition:
            self._wait_until(self._time_ms + duration_ms, cancelled)

    def _wait_until(self, time_ms: float, cancelled: threading.Event) -> None:
        if self._time_ms >= time_ms:
            return
        wait = object()
        self._waits[wait] = time_ms
        self._condition.notify_all()
        try:
            self._condition.wait_for(lambda: cancelled.is_set() or self._time_ms >= time_ms)
        finally:
            self._waits.pop(wait, None)

    def wake(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def await_waiters(self, count: int = 1, timeout_s: float = 10.0) -> None:
        """Wait until ``count`` threads wait on this clock, so that the next ``advance`` is deterministic."""
        with self._condition:
            if not self._condition.wait_for(lambda: len(self._waits) >= count, timeout_s):
                raise TimeoutError(
                    f"{len(self._waits)} threads wait on the manual clock after {timeout_s} s, not {count}"
                )
