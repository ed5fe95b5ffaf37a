"""The nodes of ``reduceByKeyAndWindow``: with an inverse function, and without one (also ``groupByKeyAndWindow``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark import RDD

from penstock.graph.node import Node
from penstock.graph.per_batch import ShuffledDStream
from penstock.graph.stateful import StatefulDStream
from penstock.spark.rdds import co_partitioned_union
from penstock.worker.combine import combine_combiners
from penstock.worker.state_elements import SlideWindow, to_state_pairs

# As in PySpark: below this number of slides per window, reducing once is faster than reducing twice.
_MIN_SLIDES = 5


class TreeWindowDStream(Node):
    """The values of a key within a window, reduced without an inverse function.

    The panes, which are reduced batches, are reduced in a binary tree over time. A tree node at level k covers 2^k
    panes, starting at a multiple of 2^k. A window consists of at most two tree nodes per level, and a slide adds about
    one, so the cost of a slide grows with the logarithm of the number of panes. The reduction must be associative but
    need not be commutative, because nodes are reduced in the order of time. If the reduction only gathers values, tree
    nodes would repeat all values and save nothing, so windows are reduced from panes directly.
    """

    def __init__(self, panes: ShuffledDStream, window_ms: int, slide_ms: int, *, gathers: bool = False) -> None:
        super().__init__(panes.graph, (panes,), window_ms, slide_ms)
        self._panes = panes
        self._cover = (lambda begin, end: [(0, number) for number in range(begin, end)]) if gathers else cover
        # (level, number) -> panes number * 2^level to (number + 1) * 2^level, reduced; None when all are empty.
        self._nodes: dict[tuple[int, int], RDD[Any] | None] = {}
        panes.persist_by_default()
        panes.fix_partitions()

    def program_state(self) -> dict[str, Any]:
        return {**super().program_state(), "_nodes": {}}

    def compute(self, time_ms: int) -> RDD[Any] | None:
        end = (time_ms - self._zero_ms()) // self._panes.slide_ms
        begin = max(end - self.window_ms // self._panes.slide_ms, 0)
        return self._reduce([self._node(level, number) for level, number in self._cover(begin, end)])

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        super().clear_metadata(time_ms, unpersist=unpersist)
        oldest = (time_ms - self.parent_remember_ms - self._zero_ms()) // self._panes.slide_ms
        for level, number in [key for key in self._nodes if key[1] << key[0] < oldest]:
            node = self._nodes.pop((level, number))
            if unpersist and node is not None:
                node.unpersist()

    def _node(self, level: int, number: int) -> RDD[Any] | None:
        if level == 0:
            return self._panes.get_or_compute(self._zero_ms() + (number + 1) * self._panes.slide_ms)
        if (level, number) not in self._nodes:
            node = self._reduce(self._parts(level, number))
            self._nodes[level, number] = None if node is None else node.persist()
        return self._nodes[level, number]

    def _parts(self, level: int, number: int) -> list[RDD[Any] | None]:
        """The available parts of a tree node: its left half, the right half's left half, and so on.

        At the time of the node's last pane these are the persisted nodes of the previous window, so that the node needs
        one reduction.
        """
        parts: list[RDD[Any] | None] = []
        while level > 0:
            level, number = level - 1, 2 * number
            parts.append(self._node(level, number))
            number += 1
            if (level, number) in self._nodes:
                break
        return [*parts, self._node(level, number)]

    def _reduce(self, parts: list[RDD[Any] | None]) -> RDD[Any] | None:
        present = [part for part in parts if part is not None]
        if len(present) <= 1:
            return present[0] if present else None
        union = co_partitioned_union(self._sc, present, self._panes.num_partitions)
        return union.mapPartitionsWithIndex(partial(combine_combiners, self._panes.combiner), True)


def cover(begin: int, end: int) -> list[tuple[int, int]]:
    """The fewest tree nodes, as (level, number), that cover the panes [begin, end), oldest first."""
    nodes = []
    while begin < end:
        # The largest node that begins here and ends within the range.
        level = min((begin & -begin).bit_length() - 1 if begin else end.bit_length(), (end - begin).bit_length() - 1)
        nodes.append((level, begin >> level))
        begin += 1 << level
    return nodes


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
        return self.merged(rdds, slide)
