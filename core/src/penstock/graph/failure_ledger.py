"""``FailureLedger``: from the tasks to the driver, what a state function failed on.

Owns one accumulator. A program may never look at the partition in which a function failed (``pprint`` takes a few
records): the batch fails all the same. Written by tasks that ended well, read on the job pool.
"""

from __future__ import annotations

import threading
from typing import Any

from attrs import frozen
from pyspark import Accumulator, SparkContext
from pyspark.accumulators import AccumulatorParam

from penstock.worker.chunk import Failures

# Partitions whose failures are remembered as told: they are noted again when what is lost is computed anew.
_TOLD = 10_000

_Noted = dict[tuple[int, int], Failures]


class _Merged(AccumulatorParam[_Noted]):
    def zero(self, value: _Noted) -> _Noted:
        return {}

    def addInPlace(self, value1: _Noted, value2: _Noted) -> _Noted:
        value1.update(value2)
        return value1


@frozen
class NoteFailures:
    """What a task notes failures with."""

    _noted: Accumulator[_Noted]

    def __call__(self, time_ms: int, partition: int, failures: Failures) -> None:
        """Note what failed in a partition of a batch."""
        self._noted.add({(time_ms, partition): failures})


class FailureLedger:
    """The failures of one stream.

    Args:
        sc: whose tasks.
    """

    def __init__(self, sc: SparkContext) -> None:
        self._noted: Accumulator[_Noted] = sc.accumulator({}, _Merged())
        self._told: dict[tuple[int, int], None] = {}
        self._lock = threading.Lock()

    @property
    def note(self) -> NoteFailures:
        """For tasks."""
        return NoteFailures(self._noted)

    def raise_failures(self) -> None:
        """Raise what was noted since the last call.

        Raises:
            StateUpdateError: something was.
        """
        with self._lock:
            noted: dict[tuple[int, int], Failures] = self._noted.value
            new: list[Any] = [(place, noted.pop(place)) for place in list(noted)]
            new = [(place, failures) for place, failures in new if place not in self._told]
            self._told.update(dict.fromkeys(place for place, _failures in new))
            while len(self._told) > _TOLD:
                del self._told[next(iter(self._told))]
        if new:
            raise Failures.all_of([failures for _place, failures in new]).as_error()
