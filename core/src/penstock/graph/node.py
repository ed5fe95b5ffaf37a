"""``Node``: one stream of the graph, as a sequence of RDDs.

Owns the parents, slide duration, zero time, remember duration, storage level, checkpoint interval and the remembered
RDDs. Nodes know nothing of ``DStream``, the API by which programs build them. RDDs are generated under the graph's lock
and evaluated on the job pool: a node runs no Spark job.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pyspark import RDD, StorageLevel

from penstock import conf
from penstock.errors import ConfigurationError, StreamingStateError, shown
from penstock.graph.batch_input import BatchInput
from penstock.graph.call_site import add_package, call_site
from penstock.spark.rdd_files import checkpoint_file

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.graph.dstream_graph import DStreamGraph
    from penstock.plugins.listener_context import Role


class OnDriver:
    """Base of objects that exist on the driver only: pickling them for a task is refused."""

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError(
            f"a function that runs in a task refers to a {type(self).__name__}; streams exist on the driver only: "
            "use the arguments of the function instead"
        )


def with_ancestors(nodes: Iterable[Node]) -> list[Node]:
    """Some nodes and all nodes that they are computed from, in the order in which the program created them."""
    reached: dict[int, Node] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.number not in reached:
            reached[node.number] = node
            waiting.extend(node.parents)
    return [node for _number, node in sorted(reached.items())]


class Node(OnDriver):
    """A stream of a graph. A plugin derives its own kinds of streams from this class.

    A subclass overrides ``compute``, or keeps batches of another form, which it drops in ``clear_metadata``. It pickles
    what ``program_state`` returns, and restores the rest in ``restored``.

    Args:
        graph: the graph of the stream.
        parents: the streams from which this one is computed.
        window_ms: length of the window of parents' RDDs from which an RDD is computed; 0 without a window.
        slide_ms: milliseconds between two RDDs; by default the slide of the parents, or the batch interval.

    Raises a ValueError if the parents' slide durations or contexts differ.
    """

    role: ClassVar[Role] = "transformation"
    #: Whether the records, and so their columns, are those of the parents.
    keeps_records: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        add_package(cls.__module__)

    def __init__(
        self, graph: DStreamGraph, parents: Iterable[Node], window_ms: int = 0, slide_ms: int | None = None
    ) -> None:
        graph.check_can_build(type(self).__name__)
        self.graph = graph
        self._sc = graph.spark_context
        self.parents = tuple(parents)
        self.window_ms = window_ms
        if any(parent.graph is not graph for parent in self.parents):
            raise ValueError("All DStreams should belong to one StreamingContext: create them all from the same one")
        parent_slides_ms = {parent.slide_ms for parent in self.parents} or {graph.batch_interval_ms}
        if len(parent_slides_ms) > 1:
            raise ValueError(
                "All DStreams should have same slide duration, and these have "
                f"{' and '.join(f'{slide_ms / 1000:g} s' for slide_ms in sorted(parent_slides_ms))}: "
                "give their windows the same slideDuration"
            )
        self.slide_ms: int = slide_ms or parent_slides_ms.pop()
        #: The line of the program that created the stream.
        self.call_site = call_site()
        #: Streams are numbered in the order in which the program creates them.
        self.number = graph.count_stream()
        #: Set by the program with ``setName``.
        self.name: str | None = None
        self._zero_time_ms: int | None = None
        self.remember_ms = 0
        self._storage_level: StorageLevel | None = None
        self._checkpoint_ms: int | None = None
        self._generated: dict[int, RDD[Any]] = {}
        # The times for which ``compute`` returned ``None``.
        self._without_rdd: set[int] = set()
        # Checkpoint files by batch time; files of forgotten RDDs stay until a newer RDD is checkpointed.
        self._files: dict[int, str] = {}

    # -- for subclasses to override --

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """Generate the RDD of a valid time; ``None`` for a batch without an RDD."""
        raise TypeError(f"{type(self).__name__} must override compute")

    def batch_inputs(self, time_ms: int) -> tuple[BatchInput, ...] | None:
        """The inputs from which the columns of a batch are read, in order; ``None`` for a time without a batch."""
        rdd = self.get_or_compute(time_ms)
        return None if rdd is None else (rdd,)

    def prepare(self) -> None:
        """Do slow preparations for the first batch. Called once before receivers start, on a separate thread."""

    def before_retry(self) -> None:
        """Repeat slow work that failed in ``compute``. Any thread calls it, without the graph's lock."""

    def check_job(self) -> None:
        """Raise an error that tasks reported without failing. Called after every job of an output of this stream."""

    @cached_property
    def has_columns(self) -> bool:
        """Whether every batch may consist of columns with a schema instead of rows."""
        return self.keeps_records and all(parent.has_columns for parent in self.parents)

    @cached_property
    def known_schema(self) -> pa.Schema | None:
        """The schema of the stored columns; ``None`` if it is unknown before the first record."""
        schemas = [parent.known_schema for parent in self.parents if self.keeps_records] or [None]
        return schemas[0] if all(schema == schemas[0] for schema in schemas) else None

    @property
    def runs_foreign_code(self) -> bool:
        """Whether code of the program or of a plugin runs while an RDD is generated, and may run Spark jobs."""
        return False

    @cached_property
    def receiver_ids(self) -> tuple[int, ...] | None:
        """The ids of the receiver streams whose blocks are the records, in order; ``None`` for other records.

        Final once the context has started, and not used earlier.
        """
        return None

    @property
    def parent_remember_ms(self) -> int:
        """The remember duration that this stream requires of its parents."""
        return self.remember_ms + self.window_ms

    def is_forgettable(self, time_ms: int) -> bool:
        """Whether an RDD older than the remember duration may be forgotten."""
        return True

    def program_state(self) -> dict[str, Any]:
        """The attributes to save in a checkpoint of the program, without the attributes of this run."""
        return {**self.__dict__, "_zero_time_ms": None, "_generated": {}, "_without_rdd": set(), "_files": {}}

    def restored(self) -> None:
        """Recreate the attributes that ``program_state`` omits, in a context recovered from a checkpoint."""

    # -- set by the program --

    def set_name(self, name: str) -> None:
        """Name the stream."""
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(f"a stream's name must be text, and not empty: it is {shown(name)}")
        self.name = name

    def persist(self, level: StorageLevel) -> None:
        """Persist the RDDs at a storage level for as long as a stream needs them."""
        self._storage_level = level

    def persist_by_default(self) -> None:
        """Persist RDDs that a child reads repeatedly, unless the program chose a storage level."""
        if self._storage_level is None:
            self._storage_level = StorageLevel.MEMORY_ONLY

    def set_checkpoint_interval(self, interval_ms: int) -> None:
        """Persist the RDDs, and checkpoint the RDDs whose time is a multiple of the interval."""
        self.persist_by_default()
        self._checkpoint_ms = interval_ms

    # -- life --

    def initialize(self, zero_time_ms: int) -> None:
        """Fix the zero time of this stream and its ancestors; remember one slide, or two checkpoint intervals."""
        for stream in with_ancestors([self]):
            if stream._zero_time_ms not in (None, zero_time_ms):
                raise StreamingStateError(f"{type(stream).__name__} was initialized with another zero time")
            stream._zero_time_ms = zero_time_ms
            stream.remember_ms = max(stream.remember_ms, stream.slide_ms, 2 * (stream._checkpoint_ms or 0))

    def validate(self) -> None:
        """Check the checkpoint settings of this stream."""
        interval_ms, name = self._checkpoint_ms, self.call_site.short
        if interval_ms is not None:
            if self.graph.checkpoint_directory is None:
                raise ConfigurationError(
                    f"{name}: The checkpoint directory has not been set. "
                    "Please set it by StreamingContext.checkpoint(): state is carried from batch to batch. The key "
                    f"{conf.key('checkpoint_directory')} sets it as well."
                )
            if interval_ms < self.slide_ms or interval_ms % self.slide_ms:
                raise ConfigurationError(
                    f"{name}: the checkpoint interval, {interval_ms} ms, must be a multiple of the slide duration, "
                    f"{self.slide_ms} ms"
                )

    def remember(self, duration_ms: int) -> None:
        """Remember RDDs for at least this long, and the ancestors' RDDs accordingly."""
        self.remember_ms = max(self.remember_ms, duration_ms)
        # A stream is younger than its parents: its duration is final when theirs follow from it.
        for stream in reversed(with_ancestors([self])):
            for parent in stream.parents:
                parent.remember_ms = max(parent.remember_ms, stream.parent_remember_ms)

    def is_time_valid(self, time_ms: int) -> bool:
        """Whether the stream has an RDD at a time."""
        zero_ms = self._zero_ms()
        return time_ms > zero_ms and (time_ms - zero_ms) % self.slide_ms == 0

    def get_or_compute(self, time_ms: int) -> RDD[Any] | None:
        """The remembered RDD of a time, or a new one; ``None`` if the stream has none."""
        if time_ms in self._generated:
            return self._generated[time_ms]
        if time_ms in self._without_rdd or not self.is_time_valid(time_ms):
            return None
        rdd = self.compute(time_ms)
        if rdd is None:
            self._without_rdd.add(time_ms)
            return None
        if self._storage_level is not None:
            rdd.persist(self._storage_level)
        if self._is_checkpoint(time_ms):
            rdd.checkpoint()
        self._generated[time_ms] = rdd
        return rdd

    def rdds_between(self, from_ms: int, to_ms: int) -> list[RDD[Any]]:
        """The RDDs of the times between two times, both included."""
        rdds = [self.get_or_compute(time_ms) for time_ms in self.times_between(from_ms, to_ms)]
        return [rdd for rdd in rdds if rdd is not None]

    def times_between(self, from_ms: int, to_ms: int) -> range:
        """The times of this stream between two times, both included."""
        zero_ms, slide_ms = self._zero_ms(), self.slide_ms
        first, last = (max(time_ms - zero_ms, 0) // slide_ms * slide_ms + zero_ms for time_ms in (from_ms, to_ms))
        return range(first, last + 1, slide_ms)

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        """Forget RDDs older than the remember duration at ``time_ms``; the parents do so on their own."""
        self.checkpointed()
        limit_ms = time_ms - self.remember_ms
        self._without_rdd = {time for time in self._without_rdd if time > limit_ms}
        old = [time for time in self._generated if time <= limit_ms and self.is_forgettable(time)]
        for time in old:
            rdd = self._generated.pop(time)
            if any(other is rdd for other in self._generated.values()):
                continue  # the function of a transform may return the same RDD for several batches
            if unpersist and self._storage_level is not None:
                rdd.unpersist()
        self._discard_files()

    def checkpointed(self) -> dict[int, str]:
        """The checkpoint files by batch time: of remembered RDDs, and older ones until a newer RDD is checkpointed."""
        for time_ms, rdd in self._generated.items():
            if time_ms not in self._files and self._is_checkpoint(time_ms):
                path = checkpoint_file(rdd)
                if path is not None:
                    self._files[time_ms] = path
        return dict(self._files)

    def _discard_files(self) -> None:
        """Discard the checkpoint files of forgotten RDDs once a younger, remembered RDD has one.

        A failed batch keeps the files that its RDDs are computed from.
        """
        remembered = {path for time, path in self._files.items() if time in self._generated}
        if remembered:
            needed = {time for failed_ms in self.graph.failed_ms for time in self._files_needed_by(failed_ms)}
            needed.update(time for time in self._files if time >= max(self._generated))
            for time in [time for time in self._files if time not in self._generated and time not in needed]:
                path = self._files.pop(time)
                if path not in remembered:
                    self.graph.runtime.discard_file(path)

    def _files_needed_by(self, time_ms: int) -> list[int]:
        """The times of the files within the remember duration before a batch; of an older one if there are none."""
        older = sorted(time for time in self._files if time <= time_ms)
        return [time for time in older if time > time_ms - self.remember_ms] or older[-1:]

    @property
    def is_fusible(self) -> bool:
        """Whether a child may run this stream's function in its own task, because the RDDs are not persisted."""
        return self._storage_level is None

    def _is_checkpoint(self, time_ms: int) -> bool:
        if self._checkpoint_ms is None or self._zero_time_ms is None:
            return False
        return (time_ms - self._zero_time_ms) % self._checkpoint_ms == 0

    def _zero_ms(self) -> int:
        if self._zero_time_ms is None:
            raise StreamingStateError(f"{type(self).__name__} has not been initialized: start the context first")
        return self._zero_time_ms

    def datetime_of(self, time_ms: int) -> datetime:
        """A batch time for functions of the program: local and naive as in PySpark, or in the configured zone."""
        return datetime.fromtimestamp(time_ms / 1000, self.graph.time_zone)
