"""``Stream``: what every stream has, whatever it computes.

Owns the parents, slide, zero time, remember duration, storage level, checkpoint interval and the RDDs it still
remembers. Never runs a Spark job: RDDs are made under the graph's lock, evaluated on the job pool.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar

from pyspark import RDD, StorageLevel

from penstock.errors import ConfigurationError, StreamingStateError
from penstock.graph.call_site import call_site
from penstock.spark.checkpoint import checkpoint_file

if TYPE_CHECKING:
    from penstock.context import StreamingContext

T = TypeVar("T", covariant=True)


# A stream that must be checkpointed is so once in so long, unless the program says otherwise (as in Spark).
_CHECKPOINT_MS = 10_000


class Stream(Generic[T]):
    """A stream of one context.

    Args:
        context: of the program.
        parents: the streams it is computed from.
    """

    #: Each RDD needs the one before, so that without checkpoints a job's lineage would have no end.
    must_checkpoint: ClassVar[bool] = False
    #: An RDD is made of several batches'.
    spans_batches: ClassVar[bool] = False

    def __init__(self, context: StreamingContext, parents: Iterable[Stream[Any]]) -> None:
        context.check_can_build(type(self).__name__)
        self._context = context
        self._sc = context.sparkContext
        self._graph = context.graph
        self._parents = tuple(parents)
        #: Where the program made it.
        self.call_site = call_site()
        #: Streams are counted in the order in which the program makes them.
        self.number = self._graph.count_stream()
        #: What the program calls it; ``None`` when it does not.
        self.name: str | None = None
        self._zero_time_ms: int | None = None
        self.remember_ms = 0
        self._storage_level: StorageLevel | None = None
        self._checkpoint_ms: int | None = None
        self._generated: dict[int, RDD[Any]] = {}
        # Where RDDs are checkpointed, by time; of those that are forgotten, until a younger one is.
        self._files: dict[int, str] = {}

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

    def is_forgettable(self, time_ms: int) -> bool:
        """Whether the RDD of a time that is no longer remembered may go."""
        return True

    @property
    def default_checkpoint_ms(self) -> int:
        """How often a stream that must be checkpointed is so when the program does not say."""
        return self.slide_ms * math.ceil(_CHECKPOINT_MS / self.slide_ms)

    @property
    def checkpoint_ms(self) -> int:
        """How often it is checkpointed, or would be."""
        return self._checkpoint_ms or self.default_checkpoint_ms

    def keep(self) -> None:
        """Have RDDs kept that a child asks for again and again."""
        if self._storage_level is None:
            self._storage_level = StorageLevel.MEMORY_ONLY

    def program_state(self) -> dict[str, Any]:
        """The attributes that the program made: what a checkpoint holds of the stream, without what a run adds."""
        return {**self.__dict__, "_zero_time_ms": None, "_generated": {}, "_files": {}}

    def restored(self) -> None:
        """Take up, in a context that goes on from a checkpoint, what ``program_state`` left out."""

    def setName(self, name: str) -> Self:
        """Give the stream a name, by which a later run finds its state however the program has changed.

        Raises:
            ConfigurationError: the name is empty or no text.
        """
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(f"a stream's name must be text that is not empty, not {name!r}")
        self.name = name
        return self

    # -- life --

    @property
    def parents(self) -> tuple[Stream[Any], ...]:
        """The streams it is computed from."""
        return self._parents

    def initialize(self, zero_time_ms: int) -> None:
        """Fix zero time here and in the parents; remember one slide, or two checkpoints."""
        if self._zero_time_ms not in (None, zero_time_ms):
            raise StreamingStateError(f"{type(self).__name__} was initialized with another zero time")
        self._zero_time_ms = zero_time_ms
        if self.must_checkpoint and self._checkpoint_ms is None:
            self._checkpoint_ms = self.default_checkpoint_ms
        self.remember_ms = max(self.remember_ms, self.slide_ms, 2 * (self._checkpoint_ms or 0))
        for parent in self._parents:
            parent.initialize(zero_time_ms)

    def validate(self) -> None:
        """Check, here and in the parents, what the program has asked for.

        Raises:
            ConfigurationError: checkpoints without a directory, or at an interval that does not fit.
        """
        interval_ms, name = self._checkpoint_ms, type(self).__name__
        if interval_ms is None and self.must_checkpoint:
            interval_ms = self.default_checkpoint_ms
        if interval_ms is not None:
            if self._graph.checkpoint_directory is None:
                raise ConfigurationError(
                    f"{name}: The checkpoint directory has not been set. "
                    "Please set it by StreamingContext.checkpoint(), for what is carried on from batch to batch."
                )
            if interval_ms < self.slide_ms or interval_ms % self.slide_ms:
                raise ConfigurationError(
                    f"{name}: the checkpoint interval, {interval_ms} ms, must be a multiple of the slide duration, "
                    f"{self.slide_ms} ms"
                )
        for parent in self._parents:
            parent.validate()

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
        if self._is_checkpoint(time_ms):
            rdd.checkpoint()
        self._generated[time_ms] = rdd
        return rdd

    def rdds_between(self, from_ms: int, to_ms: int) -> list[RDD[Any]]:
        """The RDDs of the times from the one to the other, both included, that the stream has.

        Raises:
            StreamingStateError: the context has not started.
        """
        if self._zero_time_ms is None:
            raise StreamingStateError(f"{type(self).__name__} has not been initialized: start the context first")
        zero_ms, slide_ms = self._zero_time_ms, self.slide_ms
        first, last = (max(time_ms - zero_ms, 0) // slide_ms * slide_ms + zero_ms for time_ms in (from_ms, to_ms))
        rdds = [self.get_or_compute(time_ms) for time_ms in range(first, last + 1, slide_ms)]
        return [rdd for rdd in rdds if rdd is not None]

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        """Forget RDDs as old as ``time_ms`` less the remember duration, here and in the parents."""
        self.checkpointed()
        limit_ms = time_ms - self.remember_ms
        old = [time for time in self._generated if time <= limit_ms and self.is_forgettable(time)]
        for time in old:
            rdd = self._generated.pop(time)
            if any(other is rdd for other in self._generated.values()):
                continue  # a function of the program may give one RDD to several batches
            if unpersist and self._storage_level is not None:
                rdd.unpersist()
        self._discard_files()
        for parent in self._parents:
            parent.clear_metadata(time_ms, unpersist=unpersist)

    def checkpointed(self) -> dict[int, str]:
        """Where RDDs are that were checkpointed, by time: the remembered ones, and older ones until one of these is."""
        for time_ms, rdd in self._generated.items():
            if time_ms not in self._files and self._is_checkpoint(time_ms):
                path = checkpoint_file(rdd)
                if path is not None:
                    self._files[time_ms] = path
        return dict(self._files)

    def _discard_files(self) -> None:
        """Have the files deleted of RDDs that are forgotten, once there is that of a younger one."""
        kept = {path for time, path in self._files.items() if time in self._generated}
        if kept:
            for time in [time for time in self._files if time not in self._generated]:
                path = self._files.pop(time)
                if path not in kept:
                    self._graph.runtime.discard_file(path)

    @property
    def is_fusible(self) -> bool:
        """Whether a child may run this stream's function inside its own: not when its RDDs are kept."""
        return self._storage_level is None

    def _is_checkpoint(self, time_ms: int) -> bool:
        if self._checkpoint_ms is None or self._zero_time_ms is None:
            return False
        return (time_ms - self._zero_time_ms) % self._checkpoint_ms == 0

    def __reduce__(self) -> NoReturn:
        """Refuse to travel: a function that runs in a task has no use for a stream."""
        raise pickle.PicklingError(
            f"a function that is to run in a task refers to a {type(self).__name__}; streams live on the driver only: "
            "use what the function is given instead"
        )

    def datetime_of(self, time_ms: int) -> datetime:
        """A batch time as the program's functions get it: naive and local as PySpark gives it, or of a chosen zone."""
        return datetime.fromtimestamp(time_ms / 1000, self._graph.time_zone)

    def context(self) -> StreamingContext:
        """The context that the stream belongs to."""
        return self._context
