"""``UpdatedStateDStream``: ``updateStateByKey``, a state for each key, looked at in every batch.

Owns the meaning: the function is called for every key that has a state or new values, and ``None`` forgets the key.
Computed on the generator's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark import RDD

from penstock.graph.dstream import DStream
from penstock.graph.state import StateDStream
from penstock.worker.update_state import UpdateState


class UpdatedStateDStream(StateDStream):
    """The states, as a table.

    Args:
        parent: pairs of key and new value.
        update: from a key's new values and its state, or ``None``, to its new state, or ``None``.
        num_partitions: of the table.
        initial: pairs of key and state to begin with, ``None`` for none.
        memory_limit_mb: past which a worker spills.
    """

    def __init__(
        self,
        parent: DStream[Any],
        update: Callable[[Any, Any], Any],
        num_partitions: int | None,
        initial: RDD[Any] | Iterable[Any] | None,
        memory_limit_mb: float,
    ) -> None:
        super().__init__(parent, num_partitions, initial)
        self._update, self._limit_mb = update, memory_limit_mb

    def carry_on(self, time_ms: int) -> RDD[Any] | None:
        """Look at every key."""
        return self._updated(time_ms, UpdateState(time_ms, self._update, self._limit_mb, self._failures.note))
