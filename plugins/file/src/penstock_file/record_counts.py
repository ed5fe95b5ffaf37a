"""``RecordCounts``: how many records each batch read from its files, reported by tasks through an accumulator.

A piece that is read twice, by two outputs or by a second task attempt, counts once. There is one accumulator for each
stream and not for each batch, because PySpark never frees one. Any thread.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator, AccumulatorParam

#: Batch time → number of the piece → records.
Counts = dict[int, dict[int, int]]


class RecordCounts:
    """The counts of one stream's batches."""

    def __init__(self) -> None:
        self._batches: Counts = {}
        self._lock = threading.Lock()

    def open(self, batch_time_ms: int) -> None:
        """Start to count a batch."""
        with self._lock:
            self._batches[batch_time_ms] = {}

    def merge(self, counts: Counts) -> None:
        """Add what a task has counted; batches that are not open are ignored."""
        with self._lock:
            for batch_time_ms, pieces in counts.items():
                if (batch := self._batches.get(batch_time_ms)) is not None:
                    _merge(batch, pieces)

    def total(self, batch_time_ms: int) -> int:
        """Records of a batch read so far."""
        with self._lock:
            return sum(self._batches.get(batch_time_ms, {}).values())

    def clean_up(self, before_ms: int) -> None:
        """Drop batches older than a time."""
        with self._lock:
            for batch_time_ms in [time_ms for time_ms in self._batches if time_ms < before_ms]:
                del self._batches[batch_time_ms]

    def accumulator(self, sc: SparkContext) -> Accumulator[Any]:
        """Create the accumulator to which tasks add their counts."""
        # Not derived from AccumulatorParam: importing the plugin must not import PySpark.
        return sc.accumulator(self, cast("AccumulatorParam[Any]", _MergeCounts()))


class _MergeCounts:
    """How PySpark adds up: into RecordCounts on the driver, into a dict in a task."""

    def zero(self, _value: Any) -> Counts:
        return {}

    def addInPlace(self, value1: Any, value2: Counts) -> Any:
        if isinstance(value1, RecordCounts):
            value1.merge(value2)
        else:
            for batch_time_ms, pieces in value2.items():
                _merge(value1.setdefault(batch_time_ms, {}), pieces)
        return value1


def _merge(into: dict[int, int], pieces: dict[int, int]) -> None:
    # A task attempt that did not finish has read fewer.
    for number, count in pieces.items():
        into[number] = max(into.get(number, 0), count)
