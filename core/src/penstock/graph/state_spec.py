"""``StateSpec`` and ``State``: what a program says about ``mapWithState``, and what its function is given.

Owns their rules, which are Spark's. Specs are made on the program's thread; a State lives in a task, for one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from pyspark import RDD
from pyspark.core.rdd import Partitioner, portable_hash

from penstock.graph.arguments import partitions
from penstock.graph.arity import takes_time
from penstock.runtime.clock import require_duration_ms

S = TypeVar("S")


class StateSpec:
    """How ``mapWithState`` works; made with ``StateSpec.function``.

    Each of the other methods changes the spec and returns it, so that calls can be chained.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        #: Whether the function takes the batch time first; then what it returns is a record only if it is not None.
        self.takes_time = takes_time(function, 3, "a state function should take three or four arguments")
        self.update = function
        self.initial: RDD[Any] | Iterable[tuple[Any, Any]] | None = None
        self.num_partitions: int | None = None
        self.partition_function: Callable[[Any], int] = portable_hash
        self.timeout_ms: int | None = None

    @staticmethod
    def function(mappingFunction: Callable[..., Any]) -> StateSpec:
        """A spec with a function that is called for each record.

        Args:
            mappingFunction: ``f(key, value, state)``, whose result is a record of the stream; or ``f(time, key, value,
                state)``, whose result is one unless it is ``None``. ``value`` is ``None`` when the state times out.

        Raises:
            AssertionError: the function takes neither three nor four arguments.
            TypeError: it cannot be called.
        """
        return StateSpec(mappingFunction)

    def initialState(self, rdd: RDD[Any] | Iterable[tuple[Any, Any]]) -> StateSpec:
        """Begin with these pairs of key and state."""
        self.initial = rdd
        return self

    def numPartitions(self, numPartitions: int) -> StateSpec:
        """Keep the states in so many partitions; as many as the default parallelism otherwise.

        Raises:
            TypeError: it is no whole number.
            ValueError: it is not positive.
        """
        self.num_partitions = partitions(numPartitions)
        return self

    def partitioner(self, partitioner: Partitioner) -> StateSpec:
        """Keep the states in partitions by a ``pyspark.rdd.Partitioner``: their number, and a function of the key."""
        self.partition_function = partitioner.partitionFunc
        return self.numPartitions(partitioner.numPartitions)

    def timeout(self, duration: float) -> StateSpec:
        """Time a state out that got no record for longer than ``duration`` seconds.

        Raises:
            ValueError: the duration is not positive.
        """
        self.timeout_ms = require_duration_ms("duration", duration)
        return self


class _Missing(Enum):
    MISSING = auto()


class State(Generic[S]):
    """The state of one key, while the function of the program is called for it."""

    __slots__ = ("_removed", "_timing_out", "_updated", "_value")

    def __init__(self, value: Any = _Missing.MISSING, *, timing_out: bool = False) -> None:
        self._value, self._timing_out = value, timing_out
        self._updated = self._removed = False

    def exists(self) -> bool:
        """Whether there is a state."""
        return self._value is not _Missing.MISSING

    def get(self) -> S:
        """The state.

        Raises:
            LookupError: there is none.
        """
        if self._value is _Missing.MISSING:
            raise LookupError("State is not set: ask exists() first, or use getOption()")
        value: S = self._value
        return value

    def getOption(self) -> S | None:
        """The state, ``None`` when there is none."""
        return None if self._value is _Missing.MISSING else self._value

    def update(self, newState: S) -> None:
        """Set the state.

        Raises:
            ValueError: the state was removed, or times out, or is to be ``None``.
        """
        self._check("update")
        if newState is None:
            raise ValueError("a state cannot be None; remove() forgets it")
        self._value, self._updated = newState, True

    def remove(self) -> None:
        """Forget the state.

        Raises:
            ValueError: it was removed already, or times out.
        """
        self._check("remove")
        self._value, self._removed, self._updated = _Missing.MISSING, True, False

    def isTimingOut(self) -> bool:
        """Whether the state is about to be removed because it timed out; it cannot be changed then."""
        return self._timing_out

    @property
    def is_updated(self) -> bool:
        """Whether ``update`` was called last."""
        return self._updated

    @property
    def is_removed(self) -> bool:
        """Whether ``remove`` was called."""
        return self._removed

    def _check(self, what: str) -> None:
        if self._removed:
            raise ValueError(f"cannot {what} a state that was removed")
        if self._timing_out:
            raise ValueError(f"cannot {what} a state that times out: it is removed when the function returns")

    def __repr__(self) -> str:
        """The state, or that there is none."""
        return f"State({self._value!r})" if self.exists() else "State(not set)"
