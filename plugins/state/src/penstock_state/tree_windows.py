"""The nodes of windows that are reduced without an inverse function, from the reductions of their batches."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark import RDD

from penstock.spi import Node, ShuffledDStream, WindowOptions
from penstock_state.co_partitioned import merged
from penstock_state.state_pairs import merged_by_key


class TreeWindowDStream(Node):
    """The values of a key within a window, reduced without an inverse function.

    The panes, which are reduced batches, are reduced in a binary tree over time. A tree node at level k covers 2^k
    panes, starting at a multiple of 2^k. A window consists of at most two tree nodes per level, and a slide adds about
    one, so the cost of a slide grows with the logarithm of the number of panes. The reduction must be associative but
    need not be commutative, because nodes are reduced in the order of time. If the reduction only gathers values, tree
    nodes would repeat all values and save nothing, so windows are reduced from panes directly.
    """

    def __init__(self, panes: ShuffledDStream, options: WindowOptions, *, gathers: bool) -> None:
        super().__init__(panes.graph, (panes,), options.window_ms, options.slide_ms)
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
        combiner = self._panes.combiner
        merge = partial(merged_by_key, combiner.mergeCombiners, combiner.memory_limit_mb)
        return merged(self._sc, present, self._panes.num_partitions, merge)


def cover(begin: int, end: int) -> list[tuple[int, int]]:
    """The fewest tree nodes, as (level, number), that cover the panes [begin, end), oldest first."""
    nodes = []
    while begin < end:
        # The largest node that begins here and ends within the range.
        level = min((begin & -begin).bit_length() - 1 if begin else end.bit_length(), (end - begin).bit_length() - 1)
        nodes.append((level, begin >> level))
        begin += 1 << level
    return nodes
