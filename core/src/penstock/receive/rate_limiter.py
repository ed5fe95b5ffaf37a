"""How many records may pass.

Owns one budget, shared by every form of store and every thread of one receiver. Over any time t no more than
rate x t + burst records pass. Waits run on the thread that stores; ``stop`` and a new rate end them.
"""

from __future__ import annotations

import math
import threading

from penstock.clock import Clock
from penstock.errors import ReceiverStoppedError


class RateLimiter:
    """A token bucket.

    Args:
        clock: whose monotonic time counts.
        max_rate: records/s that no update exceeds; infinite for none.
        initial_rate: records/s until the first update.
        burst_ms: how long unused permits keep; at least one record may always pass.
    """

    def __init__(self, clock: Clock, max_rate: float, initial_rate: float, burst_ms: int) -> None:
        self._clock, self._max_rate, self._burst_ms = clock, max_rate, burst_ms
        self._rate = min(initial_rate, max_rate)
        self._tokens = 1.0
        self._refilled_ms = clock.monotonic_ms()
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._stopped = False

    @property
    def rate(self) -> float | None:
        """Records/s now in force, ``None`` for no limit."""
        return None if math.isinf(self._rate) else self._rate

    def update(self, rate: float) -> None:
        """Set the rate, at most the maximum. Zero, negative and NaN are ignored."""
        if not rate > 0:
            return
        with self._lock:
            self._refill()
            self._rate = min(rate, self._max_rate)
            self._tokens = min(self._tokens, self._burst())
            self._wake()

    def stop(self) -> None:
        """Let nobody wait any more: who would have to wait gets an error."""
        with self._lock:
            self._stopped = True
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
        while True:
            with self._lock:
                if math.isinf(self._rate):
                    return wanted
                self._refill()
                enough = min(wanted, int(self._burst()))
                if self._stopped:
                    enough = 1
                if self._tokens >= enough:
                    granted = min(wanted, int(self._tokens))
                    self._tokens -= granted
                    return granted
                if self._stopped:
                    raise ReceiverStoppedError("the receiver was stopped while it waited for its rate limit")
                wait_ms = (enough - self._tokens) / self._rate * 1000
                changed = self._changed
            # Never 0: with a coarse clock that would spin.
            self._clock.wait_for(max(wait_ms, 1.0), changed)

    def _burst(self) -> float:
        return max(1.0, self._rate * self._burst_ms / 1000)

    def _refill(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if not math.isinf(self._rate):
            earned = (now_ms - self._refilled_ms) * self._rate / 1000
            self._tokens = min(self._tokens + earned, self._burst())
        self._refilled_ms = now_ms

    def _wake(self) -> None:
        self._changed.set()
        self._changed = threading.Event()
        self._clock.wake()
