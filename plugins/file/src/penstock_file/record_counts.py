"""``RecordCounts``: the number of records that each batch read from its files, reported through an accumulator.

A piece that is read twice, by two outputs or by a second task attempt, counts once. There is one accumulator per
stream and not per batch, because PySpark never frees an accumulator. Thread-safe.
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
        """Start counting the records of a batch."""
        with self._lock:
            self._batches[batch_time_ms] = {}

    def merge(self, counts: Counts) -> None:
        """Add the counts of a task; batches that are not open are ignored."""
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
        # ``_MergeCounts`` is not derived from AccumulatorParam, because importing the plugin must not import PySpark.
        return sc.accumulator(self, cast("AccumulatorParam[Any]", _MergeCounts()))


class _MergeCounts:
    """The accumulator's addition: into RecordCounts on the driver, into a dict in a task."""

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
    # An unfinished task attempt has read fewer records.
    for number, count in pieces.items():
        into[number] = max(into.get(number, 0), count)
