"""A timer that calls back at every multiple of a period: the batch times.

All callbacks run on the timer's thread; an error in one of them is reported and does not end the timer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.runtime.clock import Clock
from penstock.runtime.threads import EngineThread, contain_errors


class RecurringTimer:
    """Calls ``callback(tick_ms)`` with the nominal time of each tick, ms since the epoch.

    Args:
        on_error: called with the error of a callback.
        skip_missed: fire only the last of several ticks that are due; otherwise they fire back to back.
        on_missed: called with the number of missed ticks, once per delay of the timer.
    """

    def __init__(
        self,
        clock: Clock,
        period_ms: int,
        callback: Callable[[int], None],
        name: str,
        on_error: Callable[[BaseException], None],
        *,
        skip_missed: bool = False,
        on_missed: Callable[[int], None] = lambda _count: None,
    ) -> None:
        self._clock = clock
        self._period_ms = period_ms
        self._callback = callback
        self._on_error = on_error
        self._skip_missed = skip_missed
        self._on_missed = on_missed
        self._thread = EngineThread(f"RecurringTimer - {name}", self._run)
        self._cancelled = threading.Event()
        self._stopped = False
        self._next_ms = 0
        self._previous_ms = -1
        self._is_behind = False

    def start_time_ms(self) -> int:
        """The first multiple of the period after now."""
        return (self._clock.now_ms() // self._period_ms + 1) * self._period_ms

    def start(self, start_ms: int) -> None:
        """Start the thread; the first tick is ``start_ms``."""
        self._next_ms = start_ms
        self._thread.start()

    def stop(self, *, interrupt: bool, timeout_s: float | None = None) -> int:
        """Stop the timer, wait for its thread, and return the last tick that fired, -1 for none.

        Without ``interrupt`` the tick that the timer waits for still fires, and so does the next one: a whole period
        passes after this call, as Spark's RecurringTimerSuite requires. The wait is cut short after ``timeout_s``, and
        at once if the clock was set back, so that the next tick is more than a period away.
        """
        self._stopped = True
        is_far = self._next_ms - self._clock.now_ms() > self._period_ms
        if interrupt or is_far or not self._thread.finish(timeout_s):
            self.interrupt()
            self._thread.finish()
        return self._previous_ms

    def interrupt(self) -> None:
        """End the timer without a further tick; returns at once."""
        self._stopped = True
        self._cancelled.set()
        self._clock.wake()

    def _run(self) -> None:
        while not self._stopped:
            self._tick()
        self._tick()

    def _tick(self) -> None:
        self._clock.wait_until(self._next_ms, self._cancelled)
        if self._cancelled.is_set():
            return
        self._catch_up()
        contain_errors(lambda: self._callback(self._next_ms), self._on_error)
        self._previous_ms = self._next_ms
        self._next_ms = self._next_ms + self._period_ms

    def _catch_up(self) -> None:
        missed = max(self._clock.now_ms() - self._next_ms, 0) // self._period_ms
        if missed and not self._is_behind:
            contain_errors(lambda: self._on_missed(missed), self._on_error)
        if missed and self._skip_missed:
            self._next_ms += missed * self._period_ms
        self._is_behind = missed > 0 and not self._skip_missed
