"""A callback at every multiple of a period.

Owns the grid of ticks. Never skips one: when it is late, the missed ticks fire back to back. The callback runs on the
timer's thread; what it raises is handed on and the timer lives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.clock import Clock
from penstock.threads import EngineThread


class RecurringTimer:
    """Call ``callback(tick_ms)`` for each tick.

    Args:
        clock: whose time counts.
        period_ms: between two ticks.
        callback: is given the nominal time of the tick.
        name: of the thread.
        on_error: is told what the callback raised.
    """

    def __init__(
        self,
        clock: Clock,
        period_ms: int,
        callback: Callable[[int], None],
        name: str,
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._clock, self._period_ms, self._callback, self._on_error = clock, period_ms, callback, on_error
        self._thread = EngineThread(f"RecurringTimer - {name}", self._run)
        self._cancelled = threading.Event()
        self._stopped = False
        self._next_ms = 0
        self._previous_ms = -1

    def start_time_ms(self) -> int:
        """The first multiple of the period after now."""
        return (self._clock.now_ms() // self._period_ms + 1) * self._period_ms

    def start(self, start_ms: int) -> None:
        """Begin to tick; the first tick is ``start_ms``."""
        self._next_ms = start_ms
        self._thread.start()

    def stop(self, *, interrupt: bool, timeout_s: float | None = None) -> int:
        """End the ticking and return the last tick that fired, -1 for none.

        With ``interrupt`` the wait at hand is cut short. Without it the tick that is being waited for fires, and one
        more, so that at least one whole period lies after this call (RecurringTimerSuite pins this down); after
        ``timeout_s`` the wait is cut short all the same.
        """
        self._stopped = True
        if interrupt or not self._thread.finish(timeout_s):
            self._cancelled.set()
            self._clock.wake()
            self._thread.finish()
        return self._previous_ms

    def _run(self) -> None:
        while not self._stopped:
            self._tick()
        self._tick()

    def _tick(self) -> None:
        self._clock.wait_until(self._next_ms, self._cancelled)
        if self._cancelled.is_set():
            return
        try:
            self._callback(self._next_ms)
        except BaseException as error:
            self._on_error(error)
        self._previous_ms, self._next_ms = self._next_ms, self._next_ms + self._period_ms
