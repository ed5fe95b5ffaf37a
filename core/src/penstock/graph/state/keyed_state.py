"""The nodes of ``updateStateByKey`` and ``mapWithState``: a state per key, updated by a function of the program.

``updateStateByKey`` calls its function for every key in every batch, ``mapWithState`` for the keys of the batch only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import RDD, Accumulator, SparkContext
from pyspark.core.rdd import portable_hash

from penstock.graph.node import Node
from penstock.graph.operators.per_batch import MapPartitionsDStream
from penstock.graph.state.stateful import StatefulDStream
from penstock.spark.rdds import as_rdd
from penstock.worker.functions import PartitionFunction
from penstock.worker.fused import CHECK_PAIRS, FusedChain
from penstock.worker.map_with_state import MapWithState, relocate_states
from penstock.worker.state_elements import MergeReported, PartitionErrors, Reported, to_state_pairs
from penstock.worker.update_state import UpdateState

if TYPE_CHECKING:
    from penstock.graph.state_spec import StateSpec

# Slides between two checkpoints of mapWithState, as in Spark. Its checkpoints hold references to state files.
_SLIDES_PER_CHECKPOINT = 10

# Number of partitions whose raised errors are remembered, because a recomputed partition reports them again.
_REMEMBERED = 10_000


class StateErrors:
    """The errors of one stream's state function, reported by the tasks and raised on the driver when a job ends.

    The batch fails even if the program never reads the partition in which its function failed.
    """

    def __init__(self, sc: SparkContext) -> None:
        #: The tasks add their errors to this accumulator.
        self.reported: Accumulator[Reported] = sc.accumulator({}, MergeReported())
        self._raised: dict[tuple[int, int], None] = {}
        self._lock = threading.Lock()

    def raise_new(self) -> None:
        """Raise the errors reported since the last call.

        Raises:
            StateUpdateError: a state function failed since then.
        """
        with self._lock:
            reported: Reported = self.reported.value
            new: list[Any] = [(partition, reported.pop(partition)) for partition in list(reported)]
            new = [(partition, errors) for partition, errors in new if partition not in self._raised]
            self._raised.update(dict.fromkeys(partition for partition, _errors in new))
            while len(self._raised) > _REMEMBERED:
                del self._raised[next(iter(self._raised))]
        if new:
            raise PartitionErrors.merged([errors for _partition, errors in new]).as_exception()


class KeyedStateDStream(StatefulDStream):
    """A state per key, updated by a function of the program.

    Args:
        num_partitions: partitions of the state; ``None`` for the number of task slots without receivers.
        initial: pairs of key and initial state; ``None`` for none.
        partition_function: from a key to a number; its remainder is the partition.
    """

    def __init__(
        self,
        parent: Node,
        num_partitions: int | None,
        initial: RDD[Any] | Iterable[Any] | None,
        partition_function: Callable[[Any], int] = portable_hash,
    ) -> None:
        super().__init__(MapPartitionsDStream(parent, CHECK_PAIRS), num_partitions, partition_function)
        self._initial = initial
        #: False if the checkpoint of the program could not contain the initial states: then saved state is required.
        self.can_begin = True
        self.restored()

    def program_state(self) -> dict[str, Any]:
        state = {**super().program_state(), "_errors": None}
        return {**state, "_initial": None, "can_begin": False} if isinstance(self._initial, RDD) else state

    def restored(self) -> None:
        self._errors = self.graph.add_state_errors(StateErrors(self._sc))

    def _updated(self, time_ms: int, update: PartitionFunction) -> RDD[Any]:
        """The states after a batch. A batch without an RDD has no new values."""
        previous, new = self._previous(time_ms), self._parent.get_or_compute(time_ms)
        return self._merged([*previous, self._partitioned(self._sc.emptyRDD() if new is None else new)], update)

    def _previous(self, time_ms: int) -> list[RDD[Any]]:
        """The newest states: of the previous slide, or older ones if ticks were skipped."""
        times = [time for time in self._generated if time < time_ms]
        if times:
            return [self._generated[max(times)]]
        if self._initial is None:
            return []
        checked = as_rdd(self._sc, self._initial).mapPartitionsWithIndex(FusedChain((CHECK_PAIRS,)), True)
        return [self._partitioned(checked).mapPartitionsWithIndex(partial(to_state_pairs, time_ms), True)]

    def _partitioned(self, rdd: RDD[Any]) -> RDD[Any]:
        return rdd.partitionBy(self.num_partitions, self.partition_function)


class StateDStream(KeyedStateDStream):
    """The states of ``updateStateByKey``.

    Args:
        update: from a key's new values and its state, or ``None``, to its new state, or ``None`` to remove the key.
        num_partitions: partitions of the state; ``None`` for the number of task slots without receivers.
        initial: pairs of key and initial state; ``None`` for none.
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
        self._update = update
        self._limit_mb = memory_limit_mb

    def advance_state(self, time_ms: int) -> RDD[Any] | None:
        return self._updated(time_ms, UpdateState(time_ms, self._update, self._limit_mb, self._errors.reported))


class InternalMapWithStateDStream(KeyedStateDStream):
    """Per partition, a handle of the states, which stay in the state store, and the records of the mapping function."""

    def __init__(self, parent: Node, spec: StateSpec[Any, Any, Any, Any]) -> None:
        super().__init__(parent, spec._num_partitions, spec._initial, spec._partition_function)
        # Not the spec itself: it may have initial states in an RDD, which a checkpoint of the program cannot contain.
        self._update = spec._function
        self._takes_time = spec._takes_time
        self._timeout_ms = spec._timeout_ms
        self._home = ""

    @property
    def home(self) -> str:
        return self._home or f"{self.graph.state_home}/{self.number}"

    def recover(self, files: Mapping[int, str], num_partitions: int, home: str) -> None:
        self._home = home
        super().recover(files, num_partitions, home)

    def _relocated(self, saved: RDD[Any]) -> RDD[Any]:
        return saved.mapPartitionsWithIndex(partial(relocate_states, self._home), True)

    @property
    def default_checkpoint_ms(self) -> int:
        return _SLIDES_PER_CHECKPOINT * self.slide_ms

    def advance_state(self, time_ms: int) -> RDD[Any] | None:
        # Older versions of the states may be read by pending batches, by the recomputation of a lost partition, and by
        # a recovered run.
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
            self._errors.reported,
            time=self.datetime_of(time_ms) if self._takes_time else None,
        )
        return self._updated(time_ms, function)
