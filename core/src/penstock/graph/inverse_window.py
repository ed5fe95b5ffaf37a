"""``InverseWindowDStream``: a reduction over a window, from the one before: less what left it, plus what entered it.

Owns PySpark's rules for it, for results must be its: windows shorter than five slides, and those with no window before
them, are reduced anew; else a key stays, with whatever value its inverse leaves, until the filter drops it. Computed on
the generator's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark import RDD

from penstock.graph.combined import CombinedDStream
from penstock.graph.dstream import DStream
from penstock.graph.table import TableDStream
from penstock.worker.chunk import Chunk, ToChunks
from penstock.worker.slide_window import SlideWindow

# As PySpark: below so many slides, reducing once is better than twice.
_SLIDES = 5


class PanesDStream(DStream[Chunk]):
    """Each batch, reduced by key, as a table: a chunk says of which batch it is."""

    def __init__(self, reduced: CombinedDStream) -> None:
        super().__init__(reduced.context(), (reduced,))
        self.reduced = reduced
        self.keep()

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """The batch."""
        rdd = self.reduced.get_or_compute(time_ms)
        return None if rdd is None else rdd.mapPartitionsWithIndex(ToChunks(time_ms), True)


class InverseWindowDStream(TableDStream):
    """The values of each key within a window, reduced.

    Args:
        reduced: each batch, reduced by key.
        inverse: takes what left the window out of what it was.
        window_ms: length of the window, in whole batches.
        slide_ms: from one window to the next, in whole batches.
        keep_pair: given a key and its value, says whether it stays; ``None`` to keep all.
    """

    def __init__(
        self,
        reduced: CombinedDStream,
        inverse: Callable[[Any, Any], Any],
        window_ms: int,
        slide_ms: int,
        keep_pair: Callable[[tuple[Any, Any]], Any] | None,
    ) -> None:
        self._panes = PanesDStream(reduced)
        self._window_ms, self._slide_ms = window_ms, slide_ms
        self._reduction, self._inverse, self._keep_pair = reduced.combiner, inverse, keep_pair
        super().__init__(self._panes, reduced.num_partitions)

    def go_on_from(self, files: Mapping[int, str], num_partitions: int, home: str) -> None:
        """Take up windows of an earlier run, and partition the panes as they are."""
        self._panes.reduced.num_partitions = num_partitions
        super().go_on_from(files, num_partitions, home)

    @property
    def slide_ms(self) -> int:
        """Milliseconds between two windows."""
        return self._slide_ms

    @property
    def parent_remember_ms(self) -> int:
        """As long as this stream remembers, and a window more."""
        return self.remember_ms + self._window_ms

    def carry_on(self, time_ms: int) -> RDD[Any] | None:
        """Slide the window before, or reduce this one anew."""
        pane_ms = self._panes.slide_ms
        begin_ms, before_ms = time_ms - self._window_ms, time_ms - self._slide_ms
        before = self._generated.get(before_ms) if self._window_ms >= _SLIDES * self._slide_ms else None
        if before is None:
            old: list[RDD[Any]] = []
            new = self._panes.rdds_between(begin_ms + pane_ms, time_ms)
        else:
            old = self._panes.rdds_between(begin_ms - self._slide_ms + pane_ms, begin_ms)
            new = self._panes.rdds_between(before_ms + pane_ms, time_ms)
        tables = [*([] if before is None else [before]), *old, *new]
        if not tables:
            return None
        slide = SlideWindow(time_ms, begin_ms, self._reduction, self._inverse, self._keep_pair)
        return self._merged(tables, slide)
