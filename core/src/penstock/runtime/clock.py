"""Clocks. All times are milliseconds.

A wait blocks the caller's thread and ends early when its ``cancelled`` event is set and ``wake`` is called.
"""

from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from penstock.errors import ConfigurationError, shown

# A clock of Linux that includes suspension; other systems have one monotonic clock.
_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


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

    def elapsed_ms(self) -> float:
        """Like ``monotonic_ms``, and includes the time in which the machine was asleep, as the wall clock does."""
        return self.monotonic_ms()

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

    def elapsed_ms(self) -> float:
        return time.clock_gettime_ns(_ELAPSED) / 1e6

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        cancelled.wait(max(duration_ms, 0) / 1000)

    def wake(self) -> None:
        """Do nothing: setting the event wakes the waiter."""
