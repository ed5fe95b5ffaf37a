"""``SlideWindow``: a window from the one before it, in one partition.

Owns the roles of what it is given: the window before, the panes that left it, the panes that entered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import Any

from attrs import frozen

from penstock.worker.chunk import Chunk, chunks_of
from penstock.worker.functions import Combiner, gathering


@frozen
class _WindowChunk(Chunk):
    """Pairs of a window, not of a pane: both may have the same time."""


class _Missing(Enum):
    MISSING = auto()


_MISSING = _Missing.MISSING
# Places in what a key's values are gathered in.
_BEFORE, _OLD, _NEW = range(3)


@frozen
class SlideWindow:
    """Make a window from the one before, the panes that left and those that entered; all are tables of one partition.

    Attributes:
        time_ms: of the window.
        begin_ms: panes up to here have left.
        combiner: of the panes.
        inverse: takes what left out.
        keep_pair: says whether a pair stays.
    """

    time_ms: int
    begin_ms: int
    combiner: Combiner
    inverse: Callable[[Any, Any], Any]
    keep_pair: Callable[[tuple[Any, Any]], Any] | None

    def __call__(self, index: int, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """The window's chunks."""
        gathered = gathering(self._gather, self.combiner.memory_limit_mb)(index, self._placed(chunks))
        return chunks_of(self.time_ms, self._slid(gathered), _WindowChunk)

    def _placed(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Any, list[Any]]]:
        for chunk in chunks:
            pane = _OLD if chunk.time_ms <= self.begin_ms else _NEW
            place = _BEFORE if isinstance(chunk, _WindowChunk) else pane
            for key, value in chunk.pairs:
                values: list[Any] = [_MISSING, _MISSING, _MISSING]
                values[place] = value
                yield key, values

    def _gather(self, values: list[Any], more: list[Any]) -> list[Any]:
        merge = self.combiner.mergeCombiners
        for place in (_BEFORE, _OLD, _NEW):
            if more[place] is not _MISSING:
                values[place] = more[place] if values[place] is _MISSING else merge(values[place], more[place])
        return values

    def _slid(self, gathered: Iterable[tuple[Any, list[Any]]]) -> Iterator[tuple[Any, Any]]:
        merge, inverse, keep = self.combiner.mergeCombiners, self.inverse, self.keep_pair
        for key, (before, old, new) in gathered:
            value = before
            if before is not _MISSING and old is not _MISSING:
                value = inverse(before, old)
            if new is not _MISSING:
                value = new if value is _MISSING else merge(value, new)
            if value is not _MISSING and (keep is None or keep((key, value))):
                yield key, value
