"""``Stream``: what every stream has, whatever it computes.

Owns the parents, slide, zero time, remember duration, storage level and the RDDs it still remembers. Never runs a Spark
job: RDDs are made on the generator's loop, evaluated on the job pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark import RDD, StorageLevel

from penstock.errors import StreamingStateError

if TYPE_CHECKING:
    from penstock.context import StreamingContext

T = TypeVar("T", covariant=True)


class Stream(Generic[T]):
    """A stream of one context.

    Args:
        context: of the program.
        parents: the streams it is computed from.
    """

    def __init__(self, context: StreamingContext, parents: Iterable[Stream[Any]]) -> None:
        context.check_can_build(type(self).__name__)
        self._context = context
        self._sc = context.sparkContext
        self._graph = context.graph
        self._parents = tuple(parents)
        self._zero_time_ms: int | None = None
        self.remember_ms = 0
        self._storage_level: StorageLevel | None = None
        self._generated: dict[int, RDD[Any]] = {}

    # -- what a kind of stream overrides --

    @property
    def slide_ms(self) -> int:
        """Milliseconds between two RDDs."""
        return self._parents[0].slide_ms if self._parents else self._graph.batch_interval_ms

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """Make the RDD of a valid time, ``None`` for none."""
        raise TypeError(f"{type(self).__name__} must override compute")

    @property
    def parent_remember_ms(self) -> int:
        """How long parents must remember for this stream's sake."""
        return self.remember_ms

    # -- life --

    def initialize(self, zero_time_ms: int) -> None:
        """Fix zero time here and in the parents; remember at least one slide."""
        if self._zero_time_ms not in (None, zero_time_ms):
            raise StreamingStateError(f"{type(self).__name__} was initialized with another zero time")
        self._zero_time_ms = zero_time_ms
        self.remember_ms = max(self.remember_ms, self.slide_ms)
        for parent in self._parents:
            parent.initialize(zero_time_ms)

    def remember(self, duration_ms: int) -> None:
        """Remember at least so long, and have the parents remember what that takes."""
        self.remember_ms = max(self.remember_ms, duration_ms)
        for parent in self._parents:
            parent.remember(self.parent_remember_ms)

    def is_time_valid(self, time_ms: int) -> bool:
        """Say whether the stream has an RDD at a time.

        Raises:
            StreamingStateError: the context has not started.
        """
        if self._zero_time_ms is None:
            raise StreamingStateError(f"{type(self).__name__} has not been initialized")
        return time_ms > self._zero_time_ms and (time_ms - self._zero_time_ms) % self.slide_ms == 0

    def get_or_compute(self, time_ms: int) -> RDD[Any] | None:
        """The RDD of a time: remembered, or made now; ``None`` when the stream has none."""
        if time_ms in self._generated:
            return self._generated[time_ms]
        if not self.is_time_valid(time_ms):
            return None
        rdd = self.compute(time_ms)
        if rdd is None:
            return None
        if self._storage_level is not None:
            rdd.persist(self._storage_level)
        self._generated[time_ms] = rdd
        return rdd

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        """Forget RDDs as old as ``time_ms`` less the remember duration, here and in the parents."""
        old = [time for time in self._generated if time <= time_ms - self.remember_ms]
        for time in old:
            rdd = self._generated.pop(time)
            if unpersist and self._storage_level is not None:
                rdd.unpersist()
        for parent in self._parents:
            parent.clear_metadata(time_ms, unpersist=unpersist)

    @property
    def is_fusible(self) -> bool:
        """Whether a child may run this stream's function inside its own: not when its RDDs are kept."""
        return self._storage_level is None

    @staticmethod
    def datetime_of(time_ms: int) -> datetime:
        """A batch time as the program's functions get it: naive, local, as PySpark gives it."""
        return datetime.fromtimestamp(time_ms / 1000)

    def context(self) -> StreamingContext:
        """The context that the stream belongs to."""
        return self._context
