"""Clocks: the machine's, and a manual one for tests. All times are milliseconds.

A wait blocks the caller's thread and ends early when its ``cancelled`` event is set and ``wake`` is called.
"""

from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from penstock.errors import ConfigurationError, shown


def milliseconds(seconds: float) -> int:
    """Convert the public API's seconds to the engine's whole milliseconds."""
    return round(seconds * 1000)


def require_duration_ms(name: str, seconds: object) -> int:
    """Convert the duration of the argument ``name`` from seconds; refuses what is not a number of at least 0.001."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
    if not is_number or milliseconds(float(seconds)) <= 0:  # type: ignore[arg-type]  # a number, as just seen
        raise ConfigurationError(f"{name}={shown(seconds)}: must be a number of seconds, at least 0.001")
    return milliseconds(float(seconds))  # type: ignore[arg-type]


def iso_time(time_ms: int) -> str:
    """A time in ms since the epoch as ISO 8601 in UTC, the form of batch times in the log."""
    time = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Clock(Protocol):
    """The engine's source of time."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch; batch times are multiples of the batch interval on it."""

    def monotonic_ms(self) -> float:
        """Milliseconds since an arbitrary moment; never goes back when the wall clock is set."""

    def wait_until(self, time_ms: float, cancelled: threading.Event) -> None:
        """Wait until ``now_ms() >= time_ms`` or ``cancelled`` is set."""

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        """Wait until ``duration_ms`` have passed on the monotonic clock or ``cancelled`` is set."""

    def wake(self) -> None:
        """Make all waits check their ``cancelled`` events."""


class SystemClock(Clock):
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1e6

    def wait_until(self, time_ms: float, cancelled: threading.Event) -> None:
        # At most a second at a time, so that a change of the wall clock soon takes effect.
        while not cancelled.is_set() and (left_ms := time_ms - time.time_ns() / 1e6) > 0:
            cancelled.wait(min(left_ms / 1000, 1.0))

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        cancelled.wait(max(duration_ms, 0) / 1000)

    def wake(self) -> None:
        """Do nothing: setting the event wakes the waiter."""


class ManualClock(Clock):
    """A clock that only ``advance`` moves: tests need no sleeping and are deterministic."""

    def __init__(self, time_ms: int = 0) -> None:
        self._time_ms = time_ms
        self._condition = threading.Condition()
        # The due time of every current wait.
        self._waits: dict[object, float] = {}

    def now_ms(self) -> int:
        with self._condition:
            return self._time_ms

    def monotonic_ms(self) -> float:
        return float(self.now_ms())

    def advance(self, duration_ms: int) -> None:
        """Move the clock forward and end the waits that are due."""
        if duration_ms < 0:
            raise ValueError(f"duration_ms={duration_ms}: a manual clock only moves forward")
        with self._condition:
            self._time_ms += duration_ms
            # A wait that is due counts as ended, even if its thread has not run yet.
            self._waits = {wait: until_ms for wait, until_ms in self._waits.items() if until_ms > self._time_ms}
            self._condition.notify_all()

    def wait_until(self, time_ms: float, cancelled: threading.Event) -> None:
        with self._condition:
            self._wait_until(time_ms, cancelled)

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
