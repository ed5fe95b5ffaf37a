"""``Gatherer``: whole records that wait to be stored together.

Owns the columns split off so far, and until when the first of what came may wait. Never stores. Runs on the receiver's
thread.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

# Enough for a block without waiting any longer.
_MANY_BYTES = 16 << 20
# Of a record, before one has come.
_TYPICAL_BYTES = 100.0


class Gatherer:
    """Columns in, one table out.

    Args:
        interval_s: how long the first bytes of a table may wait.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._columns: list[Any] = []
        self._num_bytes = 0
        #: How many records wait.
        self.records = 0
        #: When what waits is to be stored, ``None`` while nothing has come.
        self.due_s: float | None = None
        #: What a record takes, as it was in the last table.
        self.record_bytes = _TYPICAL_BYTES

    def begin(self, now_s: float) -> None:
        """Bytes have come; be they a whole record or not, from now on there is something to wait for."""
        if self.due_s is None:
            self.due_s = now_s + self._interval_s

    def add(self, column: Any) -> None:
        """Take a column of records, if there is one."""
        if column is not None and len(column):
            self._columns.append(column)
            self._num_bytes += column.nbytes
            self.records += len(column)

    def is_ripe(self, now_s: float, enough: float) -> bool:
        """Say whether to store now: it is time, or there are enough records, or enough bytes."""
        is_due = self.due_s is not None and now_s >= self.due_s
        return is_due or self.records >= enough or self._num_bytes >= _MANY_BYTES

    def take(self) -> pa.Table | None:
        """What waits, as a table with the column ``value``, ``None`` when that is nothing; then nothing waits."""
        columns, self._columns, self.due_s = self._columns, [], None
        if not columns:
            return None
        self.record_bytes = self._num_bytes / self.records
        self._num_bytes = self.records = 0
        return pa.table({"value": pa.chunked_array(columns)})
