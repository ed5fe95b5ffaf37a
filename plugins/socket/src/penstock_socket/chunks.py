"""``Chunks``: records that come one by one, stored many at a time.

Owns the records that wait, and until when: a block interval after the last store, or less when there are many. Never
waits: whoever waits for more asks how long it may. Runs on the receiver's thread.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any

# Enough for a block without waiting any longer, whatever the rate limit.
_MANY_RECORDS = 10_000
_MANY_BYTES = 16 << 20


class Chunks:
    """Records in, lists out.

    Args:
        store: takes a list of records.
        interval_s: how long a record may wait.
        rate: records/s now in force, ``None`` for no limit.
    """

    def __init__(self, store: Callable[[list[Any]], None], interval_s: float, rate: Callable[[], float | None]) -> None:
        self._store, self._interval_s, self._rate = store, interval_s, rate
        self._records: list[Any] = []
        #: Bytes received since the last store: no more is known of how large the records are.
        self.num_bytes = 0
        self._due_s = -math.inf
        self._enough = self._now_enough()

    def take_all(self, records: Iterable[Any]) -> None:
        """Take records as they come."""
        for record in records:
            self._records.append(record)
            if len(self._records) >= self._enough or time.monotonic() >= self._due_s:
                self.store()

    def ready_to_wait(self) -> float | None:
        """Store what must not wait, and say how long the rest may: ``None`` when there is none."""
        if self.num_bytes >= _MANY_BYTES:
            self.store()
        return max(0.0, self._due_s - time.monotonic()) if self._records else None

    def store(self) -> None:
        """Store what waits."""
        records, self._records, self.num_bytes = self._records, [], 0
        if records:
            self._store(records)
            self._due_s = time.monotonic() + self._interval_s
            self._enough = self._now_enough()

    def _now_enough(self) -> int:
        """With a rate limit, what the limiter lets pass in one go: the rest waits in the kernel."""
        rate = self._rate()
        return _MANY_RECORDS if rate is None else int(min(max(rate * self._interval_s, 1), _MANY_RECORDS))
