"""``TableBatcher``: collects columns of records until they are due to be stored as one table."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

# Stored without waiting any longer.
_MANY_BYTES = 16 << 20
# Assumed size of a record before the first one.
_TYPICAL_BYTES = 100.0


class TableBatcher:
    """Collects columns into one table. Used on the receiver's thread.

    Args:
        interval_s: how long the first bytes of a table may wait.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._columns: list[Any] = []
        # Of the columns; and bytes received since the last column, or in vain.
        self._num_bytes = self._received = 0
        #: Records in the batch.
        self.records = 0
        #: When the batch is due (monotonic seconds); ``None`` while it is empty.
        self.due_s: float | None = None
        #: Mean number of bytes received for a record of the last column.
        self.record_bytes = _TYPICAL_BYTES

    def begin(self, now_s: float, received: int = 0) -> None:
        """Start the interval, if it has not started, with this number of bytes received, a whole record or not."""
        self._received += received
        if self.due_s is None:
            self.due_s = now_s + self._interval_s

    def add(self, column: Any) -> None:
        """Add a column of records, if there is one."""
        if column is not None and len(column):
            self._columns.append(column)
            self._num_bytes += column.nbytes
            self.records += len(column)
            self.record_bytes, self._received = self._received / len(column), 0

    def is_due(self, now_s: float, enough: float) -> bool:
        """Say whether to store now: the interval has passed, or there are enough records or bytes."""
        is_due = self.due_s is not None and now_s >= self.due_s
        return is_due or self.records >= enough or self._num_bytes >= _MANY_BYTES

    def take(self, at_most: float = math.inf) -> pa.Table | None:
        """Return the first records as a table with the column ``value``, ``None`` when there are none.

        Others remain, and their interval has not started.

        Args:
            at_most: number of records.
        """
        self.due_s = None
        if not self._columns:
            return None
        column = pa.chunked_array(self._columns)
        count = int(min(len(column), at_most))
        rest = column.slice(count)
        self._columns = [chunk for chunk in rest.chunks if len(chunk)]
        self._num_bytes, self.records = rest.nbytes, len(rest)
        return pa.table({"value": column.slice(0, count)})
