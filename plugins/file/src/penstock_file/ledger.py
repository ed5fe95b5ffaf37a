"""``Ledger``: how many records the files of each batch had.

Owns the counts on the driver, by batch and piece, and the one accumulator through which tasks report them. A piece that
is read twice, by two outputs or by a task's second attempt, counts once. PySpark keeps an accumulator for ever, and one
cannot be taken from it while tasks run: hence one a stream, not one a batch. Written on the thread on which PySpark
receives updates, read on the scheduler's loop, opened and closed on the generator's.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator, AccumulatorParam

#: Batch time → number of the piece → records.
Counts = dict[int, dict[int, int]]


class Ledger:
    """The counts of one stream's batches."""

    def __init__(self) -> None:
        self._batches: Counts = {}
        self._lock = threading.Lock()

    def open(self, batch_time_ms: int) -> None:
        """Take counts of a batch from now on."""
        with self._lock:
            self._batches[batch_time_ms] = {}

    def merge(self, counts: Counts) -> None:
        """Take what a task has counted; batches that are not open are no one's business any more."""
        with self._lock:
            for batch_time_ms, pieces in counts.items():
                if (batch := self._batches.get(batch_time_ms)) is not None:
                    _merge(batch, pieces)

    def total(self, batch_time_ms: int) -> int:
        """The records of a batch that were read so far."""
        with self._lock:
            return sum(self._batches.get(batch_time_ms, {}).values())

    def clean_up(self, before_ms: int) -> None:
        """Forget batches strictly older than a time."""
        with self._lock:
            for batch_time_ms in [time_ms for time_ms in self._batches if time_ms < before_ms]:
                del self._batches[batch_time_ms]

    @property
    def open_batches(self) -> int:
        """Of how many batches there are counts."""
        return len(self._batches)

    def accumulator(self, sc: SparkContext) -> Accumulator[Any]:
        """What tasks add their counts to."""
        # It need not derive from AccumulatorParam, which would import PySpark where the plugin is only listed.
        return sc.accumulator(self, cast("AccumulatorParam[Any]", _MergeCounts()))


class _MergeCounts:
    """How PySpark adds up: into the ledger on the driver, into a dict in a task."""

    def zero(self, _value: Any) -> Counts:
        return {}

    def addInPlace(self, value1: Any, value2: Counts) -> Any:
        if isinstance(value1, Ledger):
            value1.merge(value2)
        else:
            for batch_time_ms, pieces in value2.items():
                _merge(value1.setdefault(batch_time_ms, {}), pieces)
        return value1


def _merge(into: dict[int, int], pieces: dict[int, int]) -> None:
    # A reading that was not finished has seen fewer.
    for number, count in pieces.items():
        into[number] = max(into.get(number, 0), count)
