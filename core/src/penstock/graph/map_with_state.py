"""``StateSpec``, the argument of ``mapWithState``, and the node, which calls its function for the batch's keys only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Generic, Self, TypeVar, overload

from pyspark import RDD
from pyspark.core.rdd import Partitioner, portable_hash

from penstock.graph.arguments import require_num_partitions, takes_time
from penstock.graph.node import Node
from penstock.graph.stateful import KeyedStateDStream
from penstock.runtime.clock import require_duration_ms
from penstock.worker.state import State
from penstock.worker.state_tasks import MapWithState, relocate_states

# Slides between two checkpoints, as in Spark. The checkpoints hold references to state files.
_SLIDES_PER_CHECKPOINT = 10

K = TypeVar("K")
V = TypeVar("V", contravariant=True)
S = TypeVar("S")
M = TypeVar("M")
# For the static method, which has no access to the type parameters of the class.
K1 = TypeVar("K1")
V1 = TypeVar("V1")
S1 = TypeVar("S1")
M1 = TypeVar("M1")


class StateSpec(Generic[K, V, S, M]):
    """The specification of ``mapWithState``; created with ``StateSpec.function``.

    The type parameters are the types of keys, values, states and mapped records. The other methods change the spec and
    return it, so that calls can be chained.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        # With the time, only results that are not None are records.
        self._takes_time = takes_time(function, 3, "a state function should take three or four arguments")
        self._function = function
        self._initial: RDD[tuple[K, S]] | Iterable[tuple[K, S]] | None = None
        self._num_partitions: int | None = None
        self._partition_function: Callable[[Any], int] = portable_hash
        self._timeout_ms: int | None = None

    @overload
    @staticmethod
    def function(mappingFunction: Callable[[K1, V1, State[S1]], M1]) -> StateSpec[K1, V1, S1, M1]: ...

    @overload
    @staticmethod
    def function(mappingFunction: Callable[[datetime, K1, V1, State[S1]], M1 | None]) -> StateSpec[K1, V1, S1, M1]: ...

    @staticmethod
    def function(mappingFunction: Callable[..., Any]) -> StateSpec[Any, Any, Any, Any]:
        """A spec with a mapping function, which is called for every record.

        Args:
            mappingFunction: ``f(key, value, state)``, whose results are the records of the stream; or ``f(time, key,
                value, state)``, whose results are records unless they are ``None``. ``value`` is ``None`` when the
                state times out.
        """
        return StateSpec(mappingFunction)

    def initialState(self, rdd: RDD[tuple[K, S]] | Iterable[tuple[K, S]]) -> Self:
        """Begin with these pairs of key and state."""
        self._initial = rdd
        return self

    def numPartitions(self, numPartitions: int) -> Self:
        """Set the number of partitions of the states; by default the number of task slots without receivers."""
        self._num_partitions = require_num_partitions(numPartitions)
        return self

    def partitioner(self, partitioner: Partitioner) -> Self:
        """Partition the states with a ``pyspark.rdd.Partitioner``: a number of partitions and a function of the key."""
        self._partition_function = partitioner.partitionFunc
        return self.numPartitions(partitioner.numPartitions)

    def timeout(self, duration: float) -> Self:
        """Time out the state of a key that has had no record for longer than ``duration`` seconds."""
        self._timeout_ms = require_duration_ms("duration", duration)
        return self


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
