"""``ReducedWindowDStream``: a reduction over a window that needs no inverse and does not start anew at each slide.

Owns the panes (one reduced batch each) and what was made of them: a binary tree over time, whose node at level k is 2^k
panes reduced, at multiples of 2^k. A window is a few nodes, at most two a level, and each slide adds about one node; so
a slide costs in proportion to the logarithm of the window's panes. Nodes are reduced in the order of time: the function
must be associative, and need not be commutative. Computed on the generator's loop.
"""

from __future__ import annotations

from typing import Any

from pyspark import RDD

from penstock.graph.combined import CombinedDStream
from penstock.graph.dstream import DStream
from penstock.spark.co_partitioned import co_partitioned_union
from penstock.worker import functions


class ReducedWindowDStream(DStream[tuple[Any, Any]]):
    """The values of each key within a window, reduced.

    Args:
        panes: each batch, reduced by key.
        window_ms: length of the window, in whole panes.
        slide_ms: from one window to the next, in whole panes.
        gathers: the reduction only gathers values: nodes would hold all of them again and spare nothing, so that
            windows are made of panes.
    """

    spans_batches = True

    def __init__(self, panes: CombinedDStream, window_ms: int, slide_ms: int, *, gathers: bool = False) -> None:
        super().__init__(panes.context(), (panes,))
        self._panes, self._window_ms, self._slide_ms = panes, window_ms, slide_ms
        self._cover = (lambda begin, end: [(0, number) for number in range(begin, end)]) if gathers else cover
        # (level, number) → the panes number * 2^level to (number + 1) * 2^level, reduced; None where none has data.
        self._nodes: dict[tuple[int, int], RDD[Any] | None] = {}
        panes.keep()

    def program_state(self) -> dict[str, Any]:
        """Without the nodes."""
        return {**super().program_state(), "_nodes": {}}

    @property
    def slide_ms(self) -> int:
        """Milliseconds between two windows."""
        return self._slide_ms

    @property
    def parent_remember_ms(self) -> int:
        """As long as this stream remembers, and a window more."""
        return self.remember_ms + self._window_ms

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """Reduce the nodes that make up the window."""
        assert self._zero_time_ms is not None
        end = (time_ms - self._zero_time_ms) // self._panes.slide_ms
        begin = max(end - self._window_ms // self._panes.slide_ms, 0)
        return self._reduce([self._node(level, number) for level, number in self._cover(begin, end)])

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        """Forget old windows, and the nodes that no window reaches any more."""
        super().clear_metadata(time_ms, unpersist=unpersist)
        assert self._zero_time_ms is not None
        oldest = (time_ms - self.parent_remember_ms - self._zero_time_ms) // self._panes.slide_ms
        for level, number in [key for key in self._nodes if key[1] << key[0] < oldest]:
            node = self._nodes.pop((level, number))
            if unpersist and node is not None:
                node.unpersist()

    def _node(self, level: int, number: int) -> RDD[Any] | None:
        if level == 0:
            assert self._zero_time_ms is not None
            return self._panes.get_or_compute(self._zero_time_ms + (number + 1) * self._panes.slide_ms)
        if (level, number) not in self._nodes:
            node = self._reduce(self._parts(level, number))
            self._nodes[level, number] = None if node is None else node.persist()
        return self._nodes[level, number]

    def _parts(self, level: int, number: int) -> list[RDD[Any] | None]:
        """What is there of a node: its left half, and the right half's left half, and so on.

        At the time of its last pane these are the nodes of the window before, so that they are kept already, and the
        node is one step from them.
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
        return union.mapPartitionsWithIndex(functions.CombineCombiners(self._panes.combiner), True)


def cover(begin: int, end: int) -> list[tuple[int, int]]:
    """The fewest nodes, (level, number), that are the panes from ``begin`` up to and without ``end``; oldest first."""
    nodes = []
    while begin < end:
        # As large as begin's position allows, and not beyond the end.
        level = min((begin & -begin).bit_length() - 1 if begin else end.bit_length(), (end - begin).bit_length() - 1)
        nodes.append((level, begin >> level))
        begin += 1 << level
    return nodes
