"""``ReducedWindowedDStream``: a reduction over a window, computed from the previous window with an inverse function.

Follows PySpark's rules, because the results must be the same. Windows shorter than five slides, and windows without a
predecessor, are reduced from their panes. Otherwise a key stays, with the result of the inverse function, until the
filter drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark import RDD

from penstock.graph.node import Node
from penstock.graph.operators.per_batch import ShuffledDStream
from penstock.graph.state.stateful import StatefulDStream
from penstock.worker.slide_window import SlideWindow
from penstock.worker.state_elements import to_state_pairs

# As in PySpark: below this number of slides per window, reducing once is faster than reducing twice.
_MIN_SLIDES = 5


class PanesDStream(Node):
    """The batches, reduced by key, in the form of state: the records contain their batch time."""

    def __init__(self, reduced: ShuffledDStream) -> None:
        super().__init__(reduced.graph, (reduced,))
        self.reduced = reduced
        self.persist_by_default()

    def compute(self, time_ms: int) -> RDD[Any] | None:
        rdd = self.reduced.get_or_compute(time_ms)
        return None if rdd is None else rdd.mapPartitionsWithIndex(partial(to_state_pairs, time_ms), True)


class ReducedWindowedDStream(StatefulDStream):
    """The values of a key within a window, reduced.

    Args:
        keep_pair: predicate for the pairs to keep; ``None`` to keep all.
    """

    def __init__(
        self,
        reduced: ShuffledDStream,
        inverse: Callable[[Any, Any], Any],
        window_ms: int,
        slide_ms: int,
        keep_pair: Callable[[tuple[Any, Any]], Any] | None,
    ) -> None:
        reduced.fix_partitions()
        self._panes = PanesDStream(reduced)
        self._reduction = reduced.combiner
        self._inverse = inverse
        self._keep_pair = keep_pair
        super().__init__(self._panes, reduced.requested_partitions, window_ms=window_ms, slide_ms=slide_ms)

    def recover(self, files: Mapping[int, str], num_partitions: int, home: str) -> None:
        self._panes.reduced.fix_partitions(num_partitions)
        super().recover(files, num_partitions, home)

    def advance_state(self, time_ms: int) -> RDD[Any] | None:
        pane_ms = self._panes.slide_ms
        begin_ms, previous_ms = time_ms - self.window_ms, time_ms - self.slide_ms
        previous = self._generated.get(previous_ms) if self.window_ms >= _MIN_SLIDES * self.slide_ms else None
        if previous is None:
            old: list[RDD[Any]] = []
            new = self._panes.rdds_between(begin_ms + pane_ms, time_ms)
        else:
            old = self._panes.rdds_between(begin_ms - self.slide_ms + pane_ms, begin_ms)
            new = self._panes.rdds_between(previous_ms + pane_ms, time_ms)
        rdds = [*([] if previous is None else [previous]), *old, *new]
        if not rdds:
            return None
        slide = SlideWindow(time_ms, begin_ms, self._reduction, self._inverse, self._keep_pair)
        return self._merged(rdds, slide)
