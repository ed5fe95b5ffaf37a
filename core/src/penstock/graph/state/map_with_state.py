"""The nodes of ``mapWithState``, whose cost is proportional to the batch and not to the number of keys.

Computed on the generator's loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark import RDD

from penstock.graph.node import Node
from penstock.graph.state.stateful import KeyedStateDStream
from penstock.worker.map_with_state import MapWithState, RelocateStates

if TYPE_CHECKING:
    from penstock.graph.state_spec import StateSpec

# Slides between two checkpoints, as in Spark. Here a checkpoint holds references to state files, not the states.
_SLIDES_PER_CHECKPOINT = 10


class InternalMapWithStateDStream(KeyedStateDStream):
    """For each partition: a handle of its states, and the records that the mapping function returned.

    The states themselves stay in the state store.

    Args:
        parent: pairs of key and value.
        spec: created by the program.
    """

    def __init__(self, parent: Node, spec: StateSpec[Any, Any, Any, Any]) -> None:
        super().__init__(parent, spec._num_partitions, spec._initial, spec._partition_function)
        # Not the spec itself: it may hold initial states in an RDD, which a checkpoint of the program cannot hold.
        self._update, self._takes_time, self._timeout_ms = spec._function, spec._takes_time, spec._timeout_ms
        self._home = ""

    @property
    def home(self) -> str:
        """Location of the state store."""
        return self._home or f"{self.graph.state_home}/{self.number}"

    def recover(self, files: Mapping[int, str], num_partitions: int, home: str) -> None:
        """Take over the states of an earlier run, and continue its state store."""
        self._home = home
        super().recover(files, num_partitions, home)

    def _relocated(self, saved: RDD[Any]) -> RDD[Any]:
        return saved.mapPartitionsWithIndex(RelocateStates(self._home), True)

    @property
    def default_checkpoint_ms(self) -> int:
        """Ten slides."""
        return _SLIDES_PER_CHECKPOINT * self.slide_ms

    def advance_state(self, time_ms: int) -> RDD[Any] | None:
        """Call the mapping function for the new records, and for the states that time out."""
        # Older versions of the states may still be read: by pending batches, to recompute a lost partition, and by a
        # run that recovers from a checkpoint.
        horizon_ms = min([time_ms - self.remember_ms, *self._generated])
        recoverable_ms = self.graph.runtime.recoverable_ms()
        if recoverable_ms is not None:
            horizon_ms = min(horizon_ms, recoverable_ms)
        function = MapWithState(
            self._update,
            time_ms,
            self._timeout_ms,
            self.home,
            horizon_ms,
            self._errors.report,
            time=self.datetime_of(time_ms) if self._takes_time else None,
        )
        return self._updated(time_ms, function)
