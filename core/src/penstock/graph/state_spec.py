"""``StateSpec``, the argument of ``mapWithState``, and the options that the plugin for state receives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Generic, Self, TypeVar, overload

from attrs import evolve, frozen
from pyspark import RDD
from pyspark.core.rdd import Partitioner, portable_hash

from penstock.graph.arguments import require_num_partitions, takes_time
from penstock.runtime.clock import require_duration_ms
from penstock.worker.state import State

K = TypeVar("K")
V = TypeVar("V", contravariant=True)
S = TypeVar("S")
M = TypeVar("M")
# For the static method, which has no access to the type parameters of the class.
K1 = TypeVar("K1")
V1 = TypeVar("V1")
S1 = TypeVar("S1")
M1 = TypeVar("M1")


@frozen
class StateOptions:
    """Options of ``updateStateByKey`` or ``mapWithState``.

    Attributes:
        function: the update function, or the mapping function.
        takes_time: whether the mapping function takes the batch time first; if so, a result of ``None`` adds no record.
        initial: pairs of key and initial state.
        num_partitions: by default the number of task slots without receivers.
        partition_function: from a key to a number.
        timeout_ms: age at which states time out; ``None`` for never.
    """

    function: Callable[..., Any]
    takes_time: bool = False
    initial: RDD[Any] | Iterable[Any] | None = None
    num_partitions: int | None = None
    partition_function: Callable[[Any], int] = portable_hash
    timeout_ms: int | None = None


@frozen
class WindowOptions:
    """Options of ``reduceByKeyAndWindow`` or ``groupByKeyAndWindow``; ``keep_pair`` selects the pairs to keep."""

    window_ms: int
    slide_ms: int
    inverse: Callable[[Any, Any], Any] | None = None
    keep_pair: Callable[[tuple[Any, Any]], Any] | None = None


class StateSpec(Generic[K, V, S, M]):
    """The specification of ``mapWithState``; created with ``StateSpec.function``.

    The type parameters are the types of keys, values, states and mapped records. The other methods change the spec and
    return it, so that calls can be chained.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        with_time = takes_time(function, 3, "a state function should take three or four arguments")
        #: For the plugin that computes the states.
        self.options = StateOptions(function, with_time)

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
        return self._with(initial=rdd)

    def numPartitions(self, numPartitions: int) -> Self:
        """Set the number of partitions of the states; by default the number of task slots without receivers."""
        return self._with(num_partitions=require_num_partitions(numPartitions))

    def partitioner(self, partitioner: Partitioner) -> Self:
        """Partition the states with a ``pyspark.rdd.Partitioner``: a number of partitions and a function of the key."""
        self._with(partition_function=partitioner.partitionFunc)
        return self.numPartitions(partitioner.numPartitions)

    def timeout(self, duration: float) -> Self:
        """Time out the state of a key that has had no record for longer than ``duration`` seconds."""
        return self._with(timeout_ms=require_duration_ms("duration", duration))

    def _with(self, **options: Any) -> Self:
        self.options = evolve(self.options, **options)
        return self
