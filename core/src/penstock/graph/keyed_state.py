"""``mapWithState``: a state for each key, at a cost in proportion to the batch.

Owns the two streams of it. ``KeyedStateDStream``'s RDDs hold, for each partition, which files its states are in, and
what the program's function returned; the states themselves stay where they are. ``MapWithStateDStream`` is what the
program sees. Computed on the generator's loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import RDD

from penstock.graph.state import StateDStream
from penstock.graph.state_spec import StateSpec
from penstock.graph.table import TableView
from penstock.graph.tasks.map_with_state import MapWithState, Returned, Snapshot

if TYPE_CHECKING:
    from penstock.graph.dstream import DStream

# Batches between two checkpoints of what the states' files are (as Spark; it is the states themselves there).
_SLIDES_PER_CHECKPOINT = 10


class KeyedStateDStream(StateDStream):
    """Where the states are, and what the function returned.

    Args:
        parent: pairs of key and value.
        spec: what the program wants.
    """

    def __init__(self, parent: DStream[Any], spec: StateSpec) -> None:
        super().__init__(parent, spec.num_partitions, spec.initial, spec.partition_function)
        self._spec = spec
        self._number = self._graph.add_state()

    @property
    def default_checkpoint_ms(self) -> int:
        """Ten slides."""
        return _SLIDES_PER_CHECKPOINT * self.slide_ms

    def carry_on(self, time_ms: int) -> RDD[Any] | None:
        """Look at the keys that got records, and those that time out."""
        home = f"{self._graph.checkpoint_home}/state-{self._number}"
        # What is remembered may be read: by batches that are pending, or to make again what was lost.
        horizon_ms = min([time_ms - self.remember_ms, *self._generated])
        function = MapWithState(
            self._spec.update,
            self.datetime_of(time_ms) if self._spec.takes_time else None,
            time_ms,
            self._spec.timeout_ms,
            home,
            horizon_ms,
            self._failures.note,
        )
        return self._updated(time_ms, function)


class MapWithStateDStream(TableView):
    """What the function returned.

    Args:
        states: where the states are.
    """

    def __init__(self, states: KeyedStateDStream) -> None:
        super().__init__(states, Returned())

    def stateSnapshots(self) -> DStream[tuple[Any, Any]]:
        """All keys and their states, in every batch."""
        return TableView(self._table, Snapshot())
