"""How many records may pass.

Owns one budget, shared by every form of store and every thread of one receiver. Over any time t no more than
rate x t + burst records pass, first come, first served. Waits run on the thread that stores; ``stop`` and a new rate
end them.
"""

from __future__ import annotations

import math
import threading

from penstock.clock import Clock
from penstock.errors import ReceiverStoppedError

_LONGEST_WAIT_MS = 3_600_000.0
# Sums of earnings are off by the last bits of a float.
_ROUNDING = 1e-6


class RateLimiter:
    """A token bucket with a queue: each request reserves its permits and waits until they are earned.

    Args:
        clock: whose monotonic time counts.
        max_rate: records/s that no update exceeds; infinite for none.
        initial_rate: records/s until the first update.
        burst_ms: how long unused permits keep; at least one record may always pass.
    """

    def __init__(self, clock: Clock, max_rate: float, initial_rate: float, burst_ms: int) -> None:
        self._clock, self._max_rate, self._burst_ms = clock, max_rate, burst_ms
        self._rate = min(initial_rate, max_rate)
        # Permits, counted from the beginning: earned by time, reserved by requests, used by those that have passed.
        self._earned, self._reserved, self._used = 1.0, 0.0, 0.0
        self._earned_at_ms = clock.monotonic_ms()
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._stopped = False
        self._stops = 0

    @property
    def rate(self) -> float | None:
        """Records/s now in force, ``None`` for no limit."""
        return None if math.isinf(self._rate) else self._rate

    def update(self, rate: float) -> None:
        """Set the rate, at most the maximum. Zero, negative and NaN are ignored."""
        if not rate > 0:
            return
        with self._lock:
            self._earn()
            self._rate = min(rate, self._max_rate)
            self._earn()
            self._wake()

    def stop(self) -> None:
        """Let nobody wait any more: who waits now, or would have to wait later, gets an error."""
        with self._lock:
            self._earn()
            self._stopped = True
            self._stops += 1
            # What is reserved and not used is given back.
            self._reserved = self._used
            self._wake()

    def start(self) -> None:
        """Let callers wait again, after ``stop``."""
        with self._lock:
            self._stopped = False

    def acquire(self, wanted: int) -> int:
        """Wait until records may pass and return how many of ``wanted`` may: all of them, or a full burst.

        Raises:
            ReceiverStoppedError: the receiver stopped, and nothing may pass without waiting.
        """
        if math.isinf(self._rate):
            return wanted
        with self._lock:
            self._earn()
            granted = min(wanted, int(self._earned - self._reserved) if self._stopped else int(self._burst()))
            if granted < 1:
                raise ReceiverStoppedError("the receiver is stopped and its rate limit leaves no room")
            self._reserved += granted
            ticket, stops = self._reserved, self._stops
        while True:
            with self._lock:
                self._earn()
                if math.isinf(self._rate):
                    return wanted
                if self._earned >= ticket - _ROUNDING:
                    self._used = max(self._used, ticket)
                    return granted
                if self._stops != stops:
                    raise ReceiverStoppedError("the receiver was stopped while it waited for its rate limit")
                wait_ms = (ticket - self._earned) / self._rate * 1000
                changed = self._changed
            # Never 0: with a coarse clock that would spin. Never for ever: another look is cheap.
            self._clock.wait_for(min(max(wait_ms, 1.0), _LONGEST_WAIT_MS), changed)

    def _burst(self) -> float:
        return max(1.0, self._rate * self._burst_ms / 1000)

    def _earn(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if not math.isinf(self._rate):
            earned = self._earned + (now_ms - self._earned_at_ms) * self._rate / 1000
            self._earned = min(earned, self._used + self._burst())
        self._earned_at_ms = now_ms

    def _wake(self) -> None:
        self._changed.set()
        self._changed = threading.Event()
        self._clock.wake()
