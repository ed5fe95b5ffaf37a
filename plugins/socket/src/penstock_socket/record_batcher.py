"""``RecordBatcher``: collects single records and stores them many at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any

# This many records or bytes are stored without further delay, whatever the rate limit.
_MANY_RECORDS = 10_000
_MANY_BYTES = 16 << 20


class RecordBatcher:
    """Stores records an interval after the last store, or sooner if there are many. Used on the receiver's thread.

    Args:
        store: called with a list of records.
        interval_s: how long a record may wait.
        rate: returns the rate limit, records/s; ``None`` for no limit.
    """

    def __init__(self, store: Callable[[list[Any]], None], interval_s: float, rate: Callable[[], float | None]) -> None:
        self._store = store
        self._interval_s = interval_s
        self._rate = rate
        self._records: list[Any] = []
        #: Bytes received since the last store, the only estimate of the records' size.
        self.num_bytes = 0
        self._due_s = -math.inf
        self._enough = self._now_enough()

    def add_all(self, records: Iterable[Any]) -> None:
        """Add records one by one as an iterator yields them."""
        for record in records:
            self._records.append(record)
            if len(self._records) >= self._enough or time.monotonic() >= self._due_s:
                self.store()

    def store_or_wait_s(self) -> float | None:
        """Store if the batch is large; return how long the remaining records may wait, ``None`` if there are none."""
        if self.num_bytes >= _MANY_BYTES:
            self.store()
        return max(0.0, self._due_s - time.monotonic()) if self._records else None

    def store(self) -> None:
        """Store the batch, if there is one."""
        records, self._records, self.num_bytes = self._records, [], 0
        if records:
            self._store(records)
            self._due_s = time.monotonic() + self._interval_s
            self._enough = self._now_enough()

    def _now_enough(self) -> int:
        """The number of records to store at once.

        With a rate limit, these are the records of one interval; more remain in the kernel's buffer.
        """
        rate = self._rate()
        return _MANY_RECORDS if rate is None else int(min(max(rate * self._interval_s, 1), _MANY_RECORDS))
