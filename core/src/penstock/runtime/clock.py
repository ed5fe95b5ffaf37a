"""Time: the machine's clock and one moved by hand.

Owns waiting for a moment. Never starts a thread. A wait runs on the caller's thread and ends early when the event it
was given is set and ``wake`` was called.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Protocol

from penstock.errors import ConfigurationError


def milliseconds(seconds: float) -> int:
    """A duration or a time as programs give it, as the engine counts it."""
    return round(seconds * 1000)


def require_duration_ms(name: str, seconds: object) -> int:
    """Read a duration that a program gives.

    Args:
        name: of the argument.
        seconds: at least a millisecond.

    Raises:
        ConfigurationError: it is no number, or less.
    """
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
    if not is_number or milliseconds(float(seconds)) <= 0:  # type: ignore[arg-type]  # a number, as just seen
        raise ConfigurationError(f"{name}={seconds!r}: must be at least 0.001 s, and a number")
    return milliseconds(float(seconds))  # type: ignore[arg-type]


class Clock(Protocol):
    """What the engine needs to know about time, in whole milliseconds."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch (wall clock: batch times are multiples of the interval in it)."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds from some fixed moment; never goes back, whatever is done to the wall clock."""
        ...

    def wait_until(self, time_ms: float, cancelled: threading.Event) -> None:
        """Return when ``now_ms() >= time_ms``, or once ``cancelled`` is set."""
        ...

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        """Return when ``duration_ms`` have passed on the monotonic clock, or once ``cancelled`` is set."""
        ...

    def wake(self) -> None:
        """Make waits look at their ``cancelled`` events now."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Monotonic clock, milliseconds."""
        return time.monotonic_ns() / 1e6

    def wait_until(self, time_ms: float, cancelled: threading.Event) -> None:
        """Wait on the wall clock; a clock that was set is noticed within a second."""
        while not cancelled.is_set() and (left_ms := time_ms - time.time_ns() / 1e6) > 0:
            cancelled.wait(min(left_ms / 1000, 1.0))

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        """Wait on the monotonic clock."""
        cancelled.wait(max(duration_ms, 0) / 1000)

    def wake(self) -> None:
        """Nothing to do: setting the event wakes the waiter."""


class ManualClock:
    """A clock that stands still until it is moved. For tests: no sleeping, no luck.

    Args:
        time_ms: where it starts, milliseconds since the epoch.
    """

    def __init__(self, time_ms: int = 0) -> None:
        self._time_ms = time_ms
        self._condition = threading.Condition()
        # Each wait at hand, and the time it waits for.
        self._waits: dict[object, float] = {}

    def now_ms(self) -> int:
        """Where the clock stands."""
        with self._condition:
            return self._time_ms

    def monotonic_ms(self) -> float:
        """Where the clock stands: by hand it can only be moved forward."""
        return float(self.now_ms())

    def advance(self, duration_ms: int) -> None:
        """Move forward by ``duration_ms`` and wake whoever waited for it.

        Raises:
            ValueError: the duration is negative.
        """
        if duration_ms < 0:
            raise ValueError(f"a manual clock moves forward only, not by {duration_ms} ms")
        with self._condition:
            self._time_ms += duration_ms
            # Who is due waits no more, whether its thread has run by now or not.
            self._waits = {wait: until_ms for wait, until_ms in self._waits.items() if until_ms > self._time_ms}
            self._condition.notify_all()

    def wait_until(self, time_ms: float, cancelled: threading.Event) -> None:
        """Wait until the clock was moved there."""
        with self._condition:
            self._wait_until(time_ms, cancelled)

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        """Wait until the clock was moved by that much from where it stands now."""
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
        """Make waits look at their ``cancelled`` events now."""
        with self._condition:
            self._condition.notify_all()

    def await_waiters(self, count: int = 1, timeout_s: float = 10.0) -> None:
        """Return when ``count`` threads wait on this clock: the moment from which moving it is deterministic.

        Raises:
            TimeoutError: they did not within ``timeout_s`` of real time.
        """
        with self._condition:
            if not self._condition.wait_for(lambda: len(self._waits) >= count, timeout_s):
                raise TimeoutError(f"{len(self._waits)} threads wait on the manual clock, not {count}")
