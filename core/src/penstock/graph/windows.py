"""The node of ``window``, and the durations of all window operators."""

from __future__ import annotations

import itertools
from typing import Any

from pyspark import RDD, StorageLevel

from penstock.graph.batch_input import BatchInput
from penstock.graph.node import Node
from penstock.runtime.clock import require_duration_ms


def window_durations(parent: Node, windowDuration: float, slideDuration: float | None) -> tuple[int, int]:
    """Check the two durations of a window operator, and convert them to milliseconds."""
    slide_ms = parent.slide_ms
    durations = []
    for name, seconds in (("windowDuration", windowDuration), ("slideDuration", slideDuration)):
        whole_ms = slide_ms if seconds is None else require_duration_ms(name, seconds)
        if whole_ms % slide_ms:
            raise ValueError(
                f"{name} must be multiple of the parent dstream's slide (batch) duration ({slide_ms} ms); "
                f"it is {whole_ms} ms"
            )
        durations.append(whole_ms)
    return durations[0], durations[1]


class WindowedDStream(Node):
    """The records of the batches within a window.

    The parent's RDDs are persisted, because overlapping windows read them repeatedly.
    """

    keeps_records = True

    def __init__(self, parent: Node, window_ms: int, slide_ms: int) -> None:
        super().__init__(parent.graph, (parent,), window_ms, slide_ms)
        self._parent = parent
        parent.persist_by_default()

    def persist_by_default(self) -> None:
        """Do nothing: a window consists of the parent's RDDs, which are persisted already."""

    def persist(self, level: StorageLevel) -> None:
        self._parent.persist(level)

    def compute(self, time_ms: int) -> RDD[Any] | None:
        rdds = self._parent.rdds_between(self._begin_ms(time_ms), time_ms)
        return self._sc.union(rdds) if rdds else self._sc.emptyRDD()

    def batch_inputs(self, time_ms: int) -> tuple[BatchInput, ...]:
        times = self._parent.times_between(self._begin_ms(time_ms), time_ms)
        return tuple(itertools.chain.from_iterable(self._parent.batch_inputs(time) or () for time in times))

    def _begin_ms(self, time_ms: int) -> int:
        return time_ms - self.window_ms + self._parent.slide_ms
