"""The nodes of windows that are reduced with an inverse function: each is computed from the previous one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark import RDD

from penstock import DStream
from penstock.spi import Node, ShuffledDStream, StatefulDStream, WindowOptions, node_of
from penstock_state.co_partitioned import merged
from penstock_state.state_pairs import SlideWindow, from_state_pairs, to_state_pairs
from penstock_state.state_view import StateView
from penstock_state.tree_windows import TreeWindowDStream

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
    """The values of a key within a window, computed from the previous window with an inverse function.

    Follows PySpark's rules, because the results must be the same. Windows shorter than five slides, and windows without
    a predecessor, are reduced from their panes. Otherwise a key stays, with the result of the inverse function, until
    the filter drops it.
    """

    def __init__(self, reduced: ShuffledDStream, options: WindowOptions, inverse: Callable[[Any, Any], Any]) -> None:
        reduced.fix_partitions()
        self._panes = PanesDStream(reduced)
        self._inverse = inverse
        self._keep_pair = options.keep_pair
        super().__init__(
            self._panes, reduced.requested_partitions, window_ms=options.window_ms, slide_ms=options.slide_ms
        )

    def recover(self, files: Mapping[int, str], num_partitions: int, home: str) -> None:
        self._panes.reduced.fix_partitions(num_partitions)
        super().recover(files, num_partitions, home)

    def advance_state(self, time_ms: int) -> RDD[Any] | None:
        pane_ms = self._panes.slide_ms
        begin_ms, previous_ms = time_ms - self.window_ms, time_ms - self.slide_ms
        previous = self._previous(time_ms)
        if previous is None:
            old: list[RDD[Any]] = []
            new = self._panes.rdds_between(begin_ms + pane_ms, time_ms)
        else:
            old = self._panes.rdds_between(begin_ms - self.slide_ms + pane_ms, begin_ms)
            new = self._panes.rdds_between(previous_ms + pane_ms, time_ms)
        rdds = [*([] if previous is None else [previous]), *old, *new]
        if not rdds:
            return None
        combiner = self._panes.reduced.combiner
        slide = SlideWindow(
            time_ms, begin_ms, combiner.mergeCombiners, self._inverse, self._keep_pair, combiner.memory_limit_mb
        )
        return merged(self._sc, rdds, self.num_partitions, slide)

    def _previous(self, time_ms: int) -> RDD[Any] | None:
        """The window that a window is computed from; ``None`` if it is reduced from its panes."""
        if self.window_ms < _MIN_SLIDES * self.slide_ms:
            return None
        # A batch that failed left no window. It is computed first, as a restart does: a window carries the keys of the
        # one before, so that a window computed from its panes alone would have fewer.
        newest_ms = max(self._generated, default=0)
        if newest_ms > time_ms - self.window_ms:
            for missing_ms in self.times_between(newest_ms + self.slide_ms, time_ms - self.slide_ms):
                self.get_or_compute(missing_ms)
        return self._generated.get(time_ms - self.slide_ms)


def windowed_stream(panes: DStream[Any], operator: str, options: WindowOptions) -> DStream[Any]:
    """The stream of ``reduceByKeyAndWindow`` or ``groupByKeyAndWindow`` over batches that are reduced by key."""
    node = node_of(panes)
    assert isinstance(node, ShuffledDStream)
    if options.inverse is not None:
        slid = ReducedWindowedDStream(node, options, options.inverse)
        return DStream(StateView(slid, from_state_pairs), panes.context())
    tree = TreeWindowDStream(node, options, gathers=operator == "groupByKeyAndWindow")
    windows: DStream[Any] = DStream(tree, panes.context())
    return windows if options.keep_pair is None else windows.filter(options.keep_pair)
