"""``BatchClock``: the clock of batch times and events. It follows the wall clock and never goes back.

Between two readings, the wall clock and the clock of elapsed time progress equally, unless somebody sets the wall
clock. After a step back the batch clock runs ahead of the wall clock. A step forward first uses up that lead; the rest
is a jump, in which no time elapses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger

log = get_logger("clock")

# A smaller difference between wall clock and elapsed time is drift, which the batch clock follows.
_STEP_MS = 100
# A thread may be suspended between the readings of two clocks. The closest of several readings counts.
_READINGS = 3


class BatchClock(Clock):
    """A clock that never goes back, on another clock whose wall time may step.

    ``on_step`` is called with every step of the wall clock and the lead over it after the step, both in ms.
    """

    def __init__(self, clock: Clock, on_step: Callable[[int, int], object] = lambda _step_ms, _ahead_ms: None) -> None:
        self._clock = clock
        self._on_step = on_step
        self._lock = threading.Lock()
        wall_ms, offset_ms = self._read()
        # The lock guards these. The wall clock minus elapsed time, the lead over the wall clock, the last result.
        self._offset_ms = offset_ms
        self._ahead_ms = 0
        self._last_ms = wall_ms
        #: Total of the steps forward, ms.
        self.jumped_ms = 0

    @classmethod
    def of(cls, clock: Clock) -> BatchClock:
        """The clock itself if it is a batch clock, or a batch clock on it."""
        return clock if isinstance(clock, BatchClock) else BatchClock(clock)

    def now_ms(self) -> int:
        with self._lock:
            wall_ms, offset_ms = self._read()
            step_ms = round(offset_ms - self._offset_ms)
            self._offset_ms = offset_ms
            is_step = abs(step_ms) > _STEP_MS
            if is_step:
                self.jumped_ms += max(step_ms - self._ahead_ms, 0)
                self._ahead_ms = max(self._ahead_ms - step_ms, 0)
            now_ms = self._last_ms = max(self._last_ms, wall_ms + self._ahead_ms)
            ahead_ms = self._ahead_ms
        if is_step:
            self._on_step(step_ms, ahead_ms)
        return now_ms

    def run_ahead(self, duration_ms: int) -> None:
        """Jump forward, ahead of the wall clock."""
        with self._lock:
            self._ahead_ms += duration_ms
            self.jumped_ms += duration_ms

    def monotonic_ms(self) -> float:
        return self._clock.monotonic_ms()

    def elapsed_ms(self) -> float:
        return self._clock.elapsed_ms()

    def wait_for(self, duration_ms: float, cancelled: threading.Event) -> None:
        self._clock.wait_for(duration_ms, cancelled)

    def wake(self) -> None:
        self._clock.wake()

    def _read(self) -> tuple[int, float]:
        """The wall clock, and its difference to the elapsed time."""
        readings = []
        for _ in range(_READINGS):
            before_ms, wall_ms, after_ms = self._clock.elapsed_ms(), self._clock.now_ms(), self._clock.elapsed_ms()
            readings.append((after_ms - before_ms, wall_ms, wall_ms - before_ms))
        return min(readings)[1:]


def log_step(step_ms: int, ahead_ms: int) -> None:
    """Log a step of the wall clock, and its consequence."""
    jump = "the next batch time is the first one after the new time, and the times between have no batch"
    effect = "batch times continue in sequence, ahead of the wall clock" if ahead_ms else jump
    log.warning("wall clock stepped", step_s=step_ms / 1000, batch_times_ahead_s=ahead_ms / 1000, effect=effect)
