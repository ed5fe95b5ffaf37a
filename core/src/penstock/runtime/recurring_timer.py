"""A timer that calls back at every multiple of a period: the batch times.

All callbacks run on the timer's thread; an error in one of them is reported and does not end the timer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.runtime.batch_clock import BatchClock
from penstock.runtime.clock import Clock
from penstock.runtime.threads import EngineThread, contain_errors

# The longest wait between two looks at the clock, which may jump. A sleeping machine ends a wait late, too.
_LONGEST_WAIT_MS = 1000


class RecurringTimer:
    """Calls ``callback(tick_ms)`` with the nominal time of each tick, ms since the epoch.

    Ticks that a jump of the clock passes over never fire: they were never due.

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
        self._clock = BatchClock.of(clock)
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
        # The last look at the clock.
        self._seen_ms = 0
        self._jumped_ms = 0

    def start_time_ms(self) -> int:
        """The first multiple of the period after now."""
        return self._first_after(self._clock.now_ms())

    def start(self, start_ms: int) -> None:
        """Start the thread; the first tick is ``start_ms``."""
        self._next_ms = start_ms
        self._seen_ms = self._clock.now_ms()
        self._jumped_ms = self._clock.jumped_ms
        self._thread.start()

    def stop(self, *, interrupt: bool, timeout_s: float | None = None) -> int:
        """Stop the timer, wait for its thread, and return the last tick that fired, -1 for none.

        Without ``interrupt`` the tick that the timer waits for still fires, and so does the next one: a whole period
        passes after this call, as Spark's RecurringTimerSuite requires. The wait is cut short after ``timeout_s``.
        """
        self._stopped = True
        if interrupt or not self._thread.finish(timeout_s):
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
        while not self._cancelled.is_set() and (left_ms := self._left_ms()) > 0:
            self._clock.wait_for(min(left_ms, _LONGEST_WAIT_MS), self._cancelled)
        if self._cancelled.is_set():
            return
        self._catch_up()
        contain_errors(lambda: self._callback(self._next_ms), self._on_error)
        self._previous_ms = self._next_ms
        self._next_ms = self._next_ms + self._period_ms

    def _left_ms(self) -> int:
        """The time until the next tick, which is the first one after a jump of the clock."""
        now_ms, jumped_ms = self._clock.now_ms(), self._clock.jumped_ms
        if jumped_ms > self._jumped_ms:
            self._next_ms = max(self._next_ms, self._first_after(self._seen_ms + jumped_ms - self._jumped_ms))
        self._seen_ms = now_ms
        self._jumped_ms = jumped_ms
        return self._next_ms - now_ms

    def _first_after(self, time_ms: int) -> int:
        return (time_ms // self._period_ms + 1) * self._period_ms

    def _catch_up(self) -> None:
        missed = max(self._clock.now_ms() - self._next_ms, 0) // self._period_ms
        if missed and not self._is_behind:
            contain_errors(lambda: self._on_missed(missed), self._on_error)
        if missed and self._skip_missed:
            self._next_ms += missed * self._period_ms
        self._is_behind = missed > 0 and not self._skip_missed
