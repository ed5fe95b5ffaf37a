"""``DueBatches``: the queue of batches that are due and not generated yet, oldest first."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence

# Maximum late batches that are pending at the same time.
_CATCH_UP_BATCHES = 10


class DueBatches:
    """The queue of due batches, and the youngest generated batch.

    A recovered run has *late* batches, which were due before it started. They come first, and are generated only while
    few batches are pending. The generator's loop changes the queue; the thread that stops the generator waits on it.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        # Ranges of batch times. The first batch stays in the queue while it is being generated.
        self._due: deque[range] = deque()
        self._changed = threading.Condition()
        self.is_abandoned = False
        self._late_until_ms = -1
        self._skippable_after_ms: int | None = None
        #: The youngest generated batch, ms; zero time before the first, -1 before zero time is known.
        self.generated_ms = -1
        # The youngest batch that was due.
        self._last_ms = -1
        #: Batch times that were never due, oldest first: the clock was set forward, or late ticks are skipped.
        self.skipped: Sequence[range] = ()

    def begin(self, time_ms: int) -> None:
        """Begin with the batch after a time; earlier batches are late, or an earlier run has generated them."""
        self.generated_ms = time_ms
        self._last_ms = time_ms

    def add(self, time_ms: int) -> None:
        """Add a batch that is due now."""
        skipped = range(self._last_ms + self._interval_ms, time_ms, self._interval_ms)
        if skipped:
            self.skipped = [*self.skipped, skipped]
        self._last_ms = time_ms
        self._due.append(range(time_ms, time_ms + 1))

    def forget_skipped(self, before_ms: int) -> None:
        """Forget skipped batch times before a time."""
        self.skipped = [batches for batches in self.skipped if batches[-1] >= before_ms]

    def add_late(self, batches: Iterable[range], until_ms: int, skippable_after_ms: int | None = None) -> None:
        """Add the late batches of a recovered run, oldest first, up to a time.

        Those after ``skippable_after_ms`` need not be generated if they have no data, unless it is ``None``.
        """
        self._due.extend(batches)
        self._late_until_ms = until_ms
        self._skippable_after_ms = skippable_after_ms

    @property
    def first(self) -> int | None:
        """The oldest due batch; ``None`` if none is due. Any thread."""
        try:
            return self._due[0][0]
        except IndexError:
            return None

    @property
    def late(self) -> list[range]:
        """The late batches in the queue. Any thread."""
        return [batches for batches in list(self._due) if batches[0] <= self._late_until_ms]

    @property
    def max_pending(self) -> int:
        """Limit of pending batches for the generation of the first due batch; 0 for none."""
        first = self.first
        return _CATCH_UP_BATCHES if first is not None and first <= self._late_until_ms else 0

    @property
    def is_first_skippable(self) -> bool:
        """Whether the oldest due batch may be skipped if it has no data."""
        first, after_ms = self.first, self._skippable_after_ms
        return first is not None and after_ms is not None and after_ms < first <= self._late_until_ms

    def skip_first(self) -> int:
        """Remove the oldest due batch without generating it; return its time in ms."""
        batches = self._due[0]
        if len(batches) > 1:
            self._due[0] = batches[1:]
        else:
            self._due.popleft()
        return batches[0]

    def first_generated(self) -> None:
        """Remove the oldest due batch, whose jobs are submitted."""
        with self._changed:
            self.generated_ms = max(self.generated_ms, self.skip_first())
            self._changed.notify_all()

    def are_generated(self, last_ms: int) -> bool:
        """Whether all batches up to a time have been generated, late ones included."""
        return self.generated_ms >= last_ms and not self._due

    def await_generated(self, last_ms: int, deadline: float) -> bool:
        """Wait for ``are_generated`` until the deadline (monotonic seconds) or ``abandon``; return whether it holds."""
        with self._changed:
            left_s = deadline - time.monotonic()
            self._changed.wait_for(lambda: self.are_generated(last_ms) or self.is_abandoned, left_s)
            return self.are_generated(last_ms)

    def abandon(self) -> None:
        """End every wait."""
        with self._changed:
            self.is_abandoned = True
            self._changed.notify_all()
