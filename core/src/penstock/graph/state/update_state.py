"""``StateDStream``: ``updateStateByKey``, which calls the update function for every key in every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark import RDD

from penstock.graph.node import Node
from penstock.graph.state.stateful import KeyedStateDStream
from penstock.worker.update_state import UpdateState


class StateDStream(KeyedStateDStream):
    """The states of ``updateStateByKey``.

    Args:
        parent: pairs of key and new value.
        update: from a key's new values and its state, or ``None``, to its new state, or ``None`` to remove the key.
        num_partitions: partitions of the state; ``None`` for the default parallelism.
        initial: pairs of key and initial state; ``None`` for none.
        memory_limit_mb: past which a worker spills.
    """

    def __init__(
        self,
        parent: Node,
        update: Callable[[Any, Any], Any],
        num_partitions: int | None,
        initial: RDD[Any] | Iterable[Any] | None,
        memory_limit_mb: float,
    ) -> None:
        super().__init__(parent, num_partitions, initial)
        self._update, self._limit_mb = update, memory_limit_mb

    def advance_state(self, time_ms: int) -> RDD[Any] | None:
        """Call the update function for every key with a state or new values."""
        return self._updated(time_ms, UpdateState(time_ms, self._update, self._limit_mb, self._errors.report))
