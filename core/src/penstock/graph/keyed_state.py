"""``mapWithState``: a state for each key, at a cost in proportion to the batch.

Owns the two streams of it. ``KeyedStateDStream``'s RDDs hold, for each partition, which files its states are in, and
what the program's function returned; the states themselves stay where they are. ``MapWithStateDStream`` is what the
program sees. Computed on the generator's loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark import RDD

from penstock.graph.state import StateDStream
from penstock.graph.state_spec import StateSpec
from penstock.graph.table import TableView
from penstock.worker.map_with_state import MapWithState, Moved, Returned, Snapshot

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
        # Not the spec itself: a checkpoint of the program could not hold its initial states when they are an RDD.
        self._update, self._takes_time, self._timeout_ms = spec.update, spec.takes_time, spec.timeout_ms
        self._home = ""

    @property
    def home(self) -> str:
        """Where the states' files are."""
        return self._home or f"{self._graph.state_home}/{self.number}"

    def go_on_from(self, files: Mapping[int, str], num_partitions: int, home: str) -> None:
        """Take up an earlier run's states where they are."""
        self._home = home
        super().go_on_from(files, num_partitions, home)

    def _moved(self, saved: RDD[Any]) -> RDD[Any]:
        return saved.mapPartitionsWithIndex(Moved(self._home), True)

    @property
    def default_checkpoint_ms(self) -> int:
        """Ten slides."""
        return _SLIDES_PER_CHECKPOINT * self.slide_ms

    def carry_on(self, time_ms: int) -> RDD[Any] | None:
        """Look at the keys that got records, and those that time out."""
        # What is remembered may be read: by batches that are pending, or to make again what was lost; and by a run that
        # goes on from one of the checkpoints.
        horizon_ms = min([time_ms - self.remember_ms, *self._generated])
        recoverable_ms = self._graph.runtime.recoverable_ms()
        if recoverable_ms is not None:
            horizon_ms = min(horizon_ms, recoverable_ms)
        function = MapWithState(
            self._update,
            self.datetime_of(time_ms) if self._takes_time else None,
            time_ms,
            self._timeout_ms,
            self.home,
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
