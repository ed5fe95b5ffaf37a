"""Retries: the delays between attempts, and the one loop that makes the attempts."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from typing import TypeVar

from penstock.runtime.clock import Clock, SystemClock

T = TypeVar("T")

#: The longest delay before a relaunch of a receiver, and before a restart unless the program configures a longer one.
LONGEST_DELAY_MS = 30_000


def delay_ms_after(failures: int, first_ms: float, longest_ms: float, rng: random.Random) -> float:
    """The delay before the next attempt: doubled by each earlier failure, up to ``longest_ms``.

    It is 50 to 100 % of that, at random, so that clients do not retry in step.
    """
    return min(first_ms * 2.0 ** min(failures, 60), longest_ms) * rng.uniform(0.5, 1.0)


class Backoff:
    """Counts failures since the last success, and computes the next delay as ``delay_ms_after``."""

    def __init__(self, first_ms: float, longest_ms: float, rng: random.Random | None = None) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._rng = rng
        #: Number of delays computed since the last success.
        self.failures = 0

    def next_ms(self) -> float:
        """The delay before the next attempt; counts a failure."""
        # Created at the first failure: seeding takes microseconds.
        self._rng = self._rng or random.Random()
        delay_ms = delay_ms_after(self.failures, self._first_ms, self._longest_ms, self._rng)
        self.failures += 1
        return delay_ms

    def reset(self) -> None:
        """Start over from the first delay, after a success."""
        self.failures = 0


def retry(
    action: Callable[[], T],
    backoff: Backoff,
    *,
    failed: BaseException | None = None,
    retries: float = math.inf,
    timeout_ms: float = math.inf,
    retry_if: Callable[[BaseException], bool] = lambda error: isinstance(error, Exception),
    on_retry: Callable[[BaseException, float], None] = lambda _error, _delay_ms: None,
    clock: Clock | None = None,
    stop: threading.Event | None = None,
) -> T:
    """Call ``action`` until it returns, waiting between the attempts.

    At most ``retries`` attempts follow the first, none later than ``timeout_ms`` after the call, and only if
    ``retry_if`` returns true for the error. ``on_retry`` is called with the error and the delay in ms before each wait.
    ``stop`` ends the wait and the attempts when set (with ``clock.wake()``). With ``failed``, the error of a first
    attempt that was made before this call, the call begins with the delay.
    """
    clock = clock or SystemClock()
    stop = stop or threading.Event()
    started_ms = clock.monotonic_ms()
    attempts = 0
    try:
        while True:
            if failed is None:
                try:
                    return action()
                except BaseException as error:
                    failed = error
            attempts += 1
            if attempts > retries or not retry_if(failed):
                raise failed
            delay_ms = backoff.next_ms()
            if clock.monotonic_ms() + delay_ms - started_ms > timeout_ms or stop.is_set():
                raise failed
            on_retry(failed, delay_ms)
            clock.wait_for(delay_ms, stop)
            if stop.is_set():
                raise failed
            failed = None
    finally:
        # Otherwise the error's traceback and this frame would refer to each other.
        failed = None
