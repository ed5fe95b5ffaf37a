"""``RecoveredState``: brings the state of a recovered run from its restore points to each batch that runs again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from attrs import frozen

from penstock.graph.dstream_graph import DStreamGraph


@frozen
class StateRestore:
    """A restore point after a failed batch: ``restore`` replaces the states by those after the batch ``time_ms``."""

    time_ms: int
    restore: Callable[[], object]


class RecoveredState:
    """Recomputes the state for the batches after a restore point. Used on the generator's loop.

    The batches between a failed batch and the next restore point are not computed: their blocks may be gone. Skipped
    batch times have no batch, and so no state.
    """

    def __init__(
        self, graph: DStreamGraph, since_ms: int, later: Iterable[StateRestore], skipped: Sequence[range] = ()
    ) -> None:
        self._graph = graph
        self._skipped = skipped
        self._time_ms = since_ms
        self._later = deque(later)

    def advance(self, before_ms: int) -> None:
        """Advance the state to the last batch before a time."""
        while self._later and self._later[0].time_ms <= before_ms:
            point = self._later.popleft()
            point.restore()
            self._time_ms = point.time_ms
        interval_ms = self._graph.batch_interval_ms
        for times_ms in without(range(self._time_ms + interval_ms, before_ms, interval_ms), self._skipped):
            self._graph.advance_state(times_ms)
        self._time_ms = max(self._time_ms, before_ms)


def without(times_ms: range, skipped: Iterable[range]) -> Iterator[range]:
    """The parts of a range of batch times that are in none of the other ranges, which are in order."""
    start_ms = times_ms.start
    for gap in skipped:
        yield range(start_ms, min(gap.start, times_ms.stop), times_ms.step)
        start_ms = max(start_ms, gap[-1] + times_ms.step)
    yield range(start_ms, times_ms.stop, times_ms.step)
