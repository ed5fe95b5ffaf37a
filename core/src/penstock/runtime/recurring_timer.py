"""A callback at every multiple of a period.

Owns the grid of ticks, and the counts of those that were late. When it is late the missed ticks fire back to back, or,
if it is told to, are skipped but for the last that is due. The callbacks run on the timer's thread; what they raise,
whatever it is, is handed on and the timer lives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread

log = get_logger("recurring_timer")


class RecurringTimer:
    """Call ``callback(tick_ms)`` for each tick.

    Args:
        clock: whose time counts.
        period_ms: between two ticks.
        callback: is given the nominal time of the tick.
        name: of the thread.
        on_error: is told what the callback raised.
        skip_missed: of the ticks that are due at the same time, fire only the last.
        on_missed: is told, once each time it falls behind, how many ticks were missed: those due before the last one.
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
        self._clock, self._period_ms, self._callback, self._on_error = clock, period_ms, callback, on_error
        self._skip_missed, self._on_missed = skip_missed, on_missed
        self._thread = EngineThread(f"RecurringTimer - {name}", self._run)
        self._cancelled = threading.Event()
        self._stopped = False
        self._next_ms = 0
        self._previous_ms = -1
        self._is_behind = False
        #: Ticks that fired when the next one was due already, and ticks that did not fire.
        self.late = self.skipped = 0

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
        ``timeout_s`` the wait is cut short all the same, and at once where the clock was set back and the tick at hand
        is more than a period away.
        """
        self._stopped = True
        is_far = self._next_ms - self._clock.now_ms() > self._period_ms
        if interrupt or is_far or not self._thread.finish(timeout_s):
            self.interrupt()
            self._thread.finish()
        return self._previous_ms

    def interrupt(self) -> None:
        """Cut the wait at hand short, and end; returns at once."""
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
        self._guarded(lambda: self._callback(self._next_ms))
        self._previous_ms, self._next_ms = self._next_ms, self._next_ms + self._period_ms

    def _catch_up(self) -> None:
        missed = max(self._clock.now_ms() - self._next_ms, 0) // self._period_ms
        if missed and not self._is_behind:
            self._guarded(lambda: self._on_missed(missed))
        if missed and self._skip_missed:
            self._next_ms += missed * self._period_ms
            self.skipped += missed
        elif missed:
            self.late += 1
        self._is_behind = missed > 0 and not self._skip_missed

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            try:
                self._on_error(error)
            # No callback ends the timer, this one neither.
            except BaseException as second:
                log.error("a timer's error was not taken", timer=self._thread.name, exc_info=second)
