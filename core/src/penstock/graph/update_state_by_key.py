"""The node of ``updateStateByKey``, which calls its function for every key in every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark import RDD

from penstock.graph.node import Node
from penstock.graph.stateful import KeyedStateDStream
from penstock.worker.update_state_by_key_task import UpdateState


class StateDStream(KeyedStateDStream):
    """The states of ``updateStateByKey``; a worker spills when it uses more memory than the limit."""

    def __init__(
        self,
        parent: Node,
        update: Callable[[Any, Any], Any],
        num_partitions: int | None,
        initial: RDD[Any] | Iterable[Any] | None,
        memory_limit_mb: float,
    ) -> None:
        super().__init__(parent, num_partitions, initial)
        self._update = update
        self._limit_mb = memory_limit_mb

    def advance_state(self, time_ms: int) -> RDD[Any] | None:
        return self._updated(time_ms, UpdateState(time_ms, self._update, self._limit_mb, self._errors.reported))
