"""``TableBatcher``: collects columns of records until they are due to be stored as one table."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

# This many bytes are stored without further delay.
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
        self._num_bytes = 0
        #: Records in the batch.
        self.records = 0
        #: When the batch is due (monotonic seconds); ``None`` until ``begin``.
        self.due_s: float | None = None
        #: Mean size of the records of the last table.
        self.record_bytes = _TYPICAL_BYTES

    def begin(self, now_s: float) -> None:
        """Start the interval, unless it has started. Called when bytes have arrived, even without a whole record."""
        if self.due_s is None:
            self.due_s = now_s + self._interval_s

    def add(self, column: Any) -> None:
        """Add a column of records, if there is one."""
        if column is not None and len(column):
            self._columns.append(column)
            self._num_bytes += column.nbytes
            self.records += len(column)

    def is_due(self, now_s: float, enough: float) -> bool:
        """Whether to store now: the interval has passed, or there are enough records or bytes."""
        is_due = self.due_s is not None and now_s >= self.due_s
        return is_due or self.records >= enough or self._num_bytes >= _MANY_BYTES

    def take(self, at_most: float = math.inf) -> pa.Table | None:
        """Return the first records as a table with the column ``value``, ``None`` when there are none.

        The other records remain; ``begin`` starts their interval.

        Args:
            at_most: maximum number of records in the table.
        """
        self.due_s = None
        if not self._columns:
            return None
        self.record_bytes = self._num_bytes / self.records
        column = pa.chunked_array(self._columns)
        count = int(min(len(column), at_most))
        rest = column.slice(count)
        self._columns = [chunk for chunk in rest.chunks if len(chunk)]
        self._num_bytes = rest.nbytes
        self.records = len(rest)
        return pa.table({"value": column.slice(0, count)})
