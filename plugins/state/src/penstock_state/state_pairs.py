"""The pairs that stateful streams carry from batch to batch, and the partition functions of windows.

Checkpoints pickle the classes of elements by their module and name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import frozen

from penstock.spi import MISSING, merge_by_key, pickle_value

# A group is one pickle, which the JVM holds as one array: far below Spark's limit of 2 GB, and small enough that Java's
# garbage collector does not give it memory regions of its own, which would double what it takes.
_GROUP_BYTES = 1 << 18
# Sizes of the parts of a group; the first pair of each part tells the size of the others.
_PARTS = (1, *(1 << power for power in range(10)))


@frozen
class StatePairs:
    """A group of key-value pairs of a state partition, and the batch time at which they were computed."""

    time_ms: int
    pairs: list[tuple[Any, Any]]


@frozen
class WindowPairs(StatePairs):
    """Pairs of a window, as distinct from those of a pane with the same time."""


def grouped(
    time_ms: int, pairs: Iterable[tuple[Any, Any]], kind: type[StatePairs] = StatePairs
) -> Iterator[StatePairs]:
    """Group the pairs of a batch: up to 1,024, fewer if they are large."""
    source = iter(pairs)
    while group := _next_group(source):
        yield kind(time_ms, group)


def _next_group(pairs: Iterator[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    group, num_bytes = list[tuple[Any, Any]](), 0
    for count in _PARTS:
        part = list(itertools.islice(pairs, count))
        group += part
        if len(part) < count:
            break
        num_bytes += count * len(pickle_value(part[0]))
        if num_bytes >= _GROUP_BYTES:
            break
    return group


def to_state_pairs(time_ms: int, _index: int, records: Iterable[tuple[Any, Any]]) -> Iterator[StatePairs]:
    """Partition function from the pairs of a batch to groups."""
    return grouped(time_ms, records)


def from_state_pairs(_index: int, elements: Iterable[StatePairs]) -> Iterator[tuple[Any, Any]]:
    """Partition function from groups to pairs."""
    return (pair for group in elements for pair in group.pairs)


# Indices into a key's list of values: in the previous window, in the panes that left, in the panes that entered.
_PREVIOUS, _OLD, _NEW = range(3)


@frozen
class SlideWindow:
    """Partition function from the previous window and the panes, as ``StatePairs``, to the next window.

    The window ends at ``time_ms``; ``merge`` adds values, and ``inverse`` removes those of panes up to ``begin_ms``.
    """

    time_ms: int
    begin_ms: int
    merge: Callable[[Any, Any], Any]
    inverse: Callable[[Any, Any], Any]
    keep_pair: Callable[[tuple[Any, Any]], Any] | None
    memory_limit_mb: float

    def __call__(self, _index: int, elements: Iterable[StatePairs]) -> Iterator[StatePairs]:
        gathered = merge_by_key(self._gather, self.memory_limit_mb, self._by_key(elements))
        return grouped(self.time_ms, self._slid(gathered), WindowPairs)

    def _by_key(self, elements: Iterable[StatePairs]) -> Iterator[tuple[Any, list[Any]]]:
        for element in elements:
            pane = _OLD if element.time_ms <= self.begin_ms else _NEW
            position = _PREVIOUS if isinstance(element, WindowPairs) else pane
            for key, value in element.pairs:
                values: list[Any] = [MISSING, MISSING, MISSING]
                values[position] = value
                yield key, values

    def _gather(self, values: list[Any], more: list[Any]) -> list[Any]:
        merge = self.merge
        for position in (_PREVIOUS, _OLD, _NEW):
            if more[position] is not MISSING:
                values[position] = (
                    more[position] if values[position] is MISSING else merge(values[position], more[position])
                )
        return values

    def _slid(self, gathered: Iterable[tuple[Any, list[Any]]]) -> Iterator[tuple[Any, Any]]:
        merge, inverse, keep = self.merge, self.inverse, self.keep_pair
        for key, (previous, old, new) in gathered:
            value = previous
            if previous is not MISSING and old is not MISSING:
                value = inverse(previous, old)
            if new is not MISSING:
                value = new if value is MISSING else merge(value, new)
            if value is not MISSING and (keep is None or keep((key, value))):
                yield key, value


def merged_by_key(
    merge: Callable[[Any, Any], Any], memory_limit_mb: float, _index: int, records: Iterable[Any]
) -> Iterator[tuple[Any, Any]]:
    """Partition function that merges the values of equal keys."""
    return merge_by_key(merge, memory_limit_mb, records)
