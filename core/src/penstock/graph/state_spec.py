"""``StateSpec``: the program's specification of ``mapWithState``. Its rules are Spark's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Generic, Self, TypeVar, overload

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

        Raises:
            AssertionError: the function takes neither three nor four arguments.
            TypeError: it is not callable.
        """
        return StateSpec(mappingFunction)

    def initialState(self, rdd: RDD[tuple[K, S]] | Iterable[tuple[K, S]]) -> Self:
        """Begin with these pairs of key and state."""
        self._initial = rdd
        return self

    def numPartitions(self, numPartitions: int) -> Self:
        """Set the number of partitions of the states; by default the number of task slots without receivers.

        Raises:
            TypeError: it is not an integer.
            ValueError: it is not positive.
        """
        self._num_partitions = require_num_partitions(numPartitions)
        return self

    def partitioner(self, partitioner: Partitioner) -> Self:
        """Partition the states with a ``pyspark.rdd.Partitioner``: a number of partitions and a function of the key."""
        self._partition_function = partitioner.partitionFunc
        return self.numPartitions(partitioner.numPartitions)

    def timeout(self, duration: float) -> Self:
        """Time out the state of a key that has had no record for longer than ``duration`` seconds.

        Raises:
            ConfigurationError: the duration is not a positive number of milliseconds.
        """
        self._timeout_ms = require_duration_ms("duration", duration)
        return self
