"""``SlideWindow``: computes a window from the previous window and the panes that left and entered, in one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import frozen

from penstock.worker.combine import Combiner, merge_by_key
from penstock.worker.state import MISSING
from penstock.worker.state_elements import StatePairs, WindowPairs, grouped

# Indices into a key's list of values: in the previous window, in the panes that left, in the panes that entered.
_PREVIOUS, _OLD, _NEW = range(3)


@frozen
class SlideWindow:
    """Partition function from the previous window and the panes, as ``StatePairs``, to the next window.

    The window ends at ``time_ms``; ``inverse`` removes the values of panes up to ``begin_ms``.
    """

    time_ms: int
    begin_ms: int
    combiner: Combiner
    inverse: Callable[[Any, Any], Any]
    keep_pair: Callable[[tuple[Any, Any]], Any] | None

    def __call__(self, _index: int, elements: Iterable[StatePairs]) -> Iterator[StatePairs]:
        gathered = merge_by_key(self._gather, self.combiner.memory_limit_mb, self._by_key(elements))
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
        merge = self.combiner.mergeCombiners
        for position in (_PREVIOUS, _OLD, _NEW):
            if more[position] is not MISSING:
                values[position] = (
                    more[position] if values[position] is MISSING else merge(values[position], more[position])
                )
        return values

    def _slid(self, gathered: Iterable[tuple[Any, list[Any]]]) -> Iterator[tuple[Any, Any]]:
        merge, inverse, keep = self.combiner.mergeCombiners, self.inverse, self.keep_pair
        for key, (previous, old, new) in gathered:
            value = previous
            if previous is not MISSING and old is not MISSING:
                value = inverse(previous, old)
            if new is not MISSING:
                value = new if value is MISSING else merge(value, new)
            if value is not MISSING and (keep is None or keep((key, value))):
                yield key, value
