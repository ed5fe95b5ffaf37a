"""``DStreamGraph``: the streams of a program, from which every batch generates its jobs.

Owns the input and output streams in the order of their registration, the batch interval, zero time, and the connection
to the engine. Only streams that an output depends on are computed. The program's thread builds the graph; the
generator's loop uses it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import frozen
from pyspark.util import _parse_memory

from penstock.errors import ConfigurationError, StreamingStateError
from penstock.graph.batch_input import BlocksInput
from penstock.graph.input_dstreams import InputDStream
from penstock.graph.node import Node, with_ancestors
from penstock.graph.outputs import ForEachDStream, Job
from penstock.graph.stateful import StatefulDStream
from penstock.spark.cluster import FreeSlots, is_closed
from penstock.spark.rdds import PlaceholderRdds, remember_classes
from penstock.spark.spark_conf import conf_of

if TYPE_CHECKING:
    from datetime import tzinfo

    from pyspark import SparkContext

    from penstock.checkpoint.completed_outputs import CompletedOutputs
    from penstock.listen.events import StreamInputInfo
    from penstock.track.receiver_tracker import ReceiverTracker

T = TypeVar("T")

# Retries, with back-off, of allocating blocks to a batch and of generating its jobs.
_GENERATION_RETRIES = 2


@frozen
class GraphRuntime:
    """The engine's functions that a started graph uses. The defaults are those of a graph without an engine.

    Attributes:
        received_blocks: the tracker of the receivers and their blocks; ``None`` without receivers.
        partition_min_bytes: minimum size of a partition of blocks, unless it is the only one.
        report_input: records the input of a stream in the batch of a time. The third argument, unless ``None``, is
            called when the batch's jobs have ended and returns the exact number of records.
        completed_outputs: the outputs that a recovered run must not repeat; ``None`` if they are not recorded.
        generation_retries: maximum retries of a block allocation, and of an output whose RDD could not be generated.
        before_output: called with batch time and output operation id before the output's RDD is generated, if the
            program's functions or a plugin's source are called for it, because these may run Spark jobs.
        discard_file: called with the path of a checkpointed RDD that no stream needs.
        recoverable_ms: returns the oldest batch time from which a later run may recover; ``None`` without checkpoints.
    """

    received_blocks: ReceiverTracker | None = None
    partition_min_bytes: int = 1 << 20
    report_input: Callable[[int, StreamInputInfo, Callable[[], int] | None], object] = lambda *_input: None
    completed_outputs: CompletedOutputs | None = None
    generation_retries: int = _GENERATION_RETRIES
    before_output: Callable[[int, int], object] = lambda _time_ms, _output_op_id: None
    monotonic_ms: Callable[[], float] = lambda: 0.0
    discard_file: Callable[[str], object] = lambda _path: None
    recoverable_ms: Callable[[], int | None] = lambda: None


class DStreamGraph:
    """The graph of one context.

    Args:
        time_zone: zone of the times that functions of the program get; ``None``: local and naive, as in PySpark.
        check_can_build: called with the name of an addition to the graph; raises once the graph accepts none.
    """

    def __init__(
        self,
        spark_context: SparkContext,
        batch_interval_ms: int,
        time_zone: tzinfo | None = None,
        check_can_build: Callable[[str], None] = lambda _what: None,
    ) -> None:
        self.spark_context = spark_context
        self.check_can_build = check_can_build
        self.batch_interval_ms = batch_interval_ms
        self.time_zone = time_zone
        self.runtime = GraphRuntime()
        self.zero_time_ms: int | None = None
        #: Batch time of the newest batch.
        self.last_time_ms = -1
        #: The last batch time that was due before a recovered run started.
        self.late_until_ms = -1
        #: Failed batches, which run again, oldest first.
        self.failed_ms: Sequence[int] = ()
        self.inputs: list[InputDStream] = []
        self.outputs: list[ForEachDStream] = []
        self.num_streams = 0
        self.remember_ms: int | None = None
        #: Directory for RDD checkpoints.
        self.checkpoint_directory: str | None = None
        #: The folder of the checkpoint directory that holds this run's state files.
        self.state_home = ""
        #: The slowest generation of a job in the last batch: milliseconds and the output's call site.
        self.slowest = (0.0, "")
        #: The number of outputs that could not be generated and will be retried, by batch time.
        self.retrying: Counter[int] = Counter()
        #: Batches without input and RDDs, because their blocks could not be allocated; for the remember duration.
        self.unallocated: set[int] = set()
        #: Set by ``stop``: no output is retried after that.
        self.stopping = threading.Event()
        #: Held while RDDs are generated or forgotten: by the generator's loop, and by callers of ``slice``.
        self.lock = threading.RLock()
        self.placeholder_rdds = PlaceholderRdds(spark_context)
        #: Number of task slots without receivers: the default number of partitions of a reduction.
        self.free_slots = FreeSlots(spark_context, lambda: len(list(self.receivers())))
        self._state_partitions: int | None = None

    def blocks(self, time_ms: int, stream_ids: Sequence[int]) -> BlocksInput:
        """The blocks of a batch from some receiver streams, packed into partitions; none for times before the start."""
        received, zero_time_ms = self.runtime.received_blocks, self.zero_time_ms
        if received is None or zero_time_ms is None:
            raise StreamingStateError("a receiver stream can be computed only in a started context")
        is_batch = time_ms > zero_time_ms
        partitions = received.partitions(time_ms, stream_ids, self.free_slots()) if is_batch else []
        return BlocksInput.of(partitions, received.reader)

    def is_large(self, blocks: BlocksInput) -> bool:
        """Whether blocks would fill several partitions, and several slots are free."""
        return blocks.num_bytes >= 2 * self.runtime.partition_min_bytes and self.free_slots() > 1

    @property
    def memory_limit_mb(self) -> float:
        """The memory above which a Python worker spills."""
        memory = conf_of(self.spark_context).get("spark.python.worker.memory", "512m")
        return _parse_memory(memory or "512m")

    @property
    def state_partitions(self) -> int:
        """The default number of partitions of states and panes, fixed at the start."""
        return self._state_partitions or self.free_slots()

    # -- before the start --

    def remember(self, duration_ms: int) -> None:
        """Have every stream remember its RDDs for at least this long."""
        if self.remember_ms is not None:
            raise ConfigurationError(
                f"remember was set already, to {self.remember_ms / 1000:g} s: call ssc.remember once, with the longest "
                "duration"
            )
        self.remember_ms = duration_ms

    def restore(
        self, inputs: list[InputDStream], outputs: list[ForEachDStream], num_streams: int, remember_ms: int | None
    ) -> None:
        """Take over the streams of a saved program."""
        self.inputs = inputs
        self.outputs = outputs
        self.num_streams = num_streams
        self.remember_ms = remember_ms
        for stream in {id(stream): stream for stream in [*inputs, *self.streams()]}.values():
            stream.restored()

    def connect(self, runtime: GraphRuntime) -> None:
        """Connect the graph to the engine; called once, before ``start``."""
        self.runtime = runtime

    def add(self, streams: list[T], stream: T) -> int:
        """Add a stream to the inputs or the outputs, and return its id there, counted from 0."""
        with self.lock:
            streams.append(stream)
            return len(streams) - 1

    def count_stream(self) -> int:
        """Return the number of a new stream, counted from 0."""
        with self.lock:
            self.num_streams += 1
            return self.num_streams - 1

    def stateful_streams(self) -> list[StatefulDStream]:
        """The stateful streams that an output depends on, in the order in which the program created them."""
        return [stream for stream in self.streams() if isinstance(stream, StatefulDStream)]

    def advance_state(self, times_ms: Iterable[int]) -> None:
        """Advance every stateful stream through some batches, in the order of their times. Runs no Spark job."""
        streams = self.stateful_streams()
        with self.lock:
            for time_ms in times_ms:
                for stream in streams:
                    stream.get_or_compute(time_ms)

    @property
    def needs_every_batch(self) -> bool:
        """Whether some stream is computed from several batches."""
        return any(stream.window_ms or isinstance(stream, StatefulDStream) for stream in self.streams())

    def streams(self) -> list[Node]:
        """The streams that an output depends on, in the order in which the program created them."""
        return with_ancestors(self.outputs)

    def validate(self) -> None:
        """Check the program before the start."""
        if not self.outputs:
            raise ConfigurationError(
                "No output operations registered, so nothing to execute: add one, such as pprint() or foreachRDD(...)"
            )
        for stream in self.streams():
            stream.validate()

    def prepare(self) -> None:
        """Have every stream do slow preparations for the first batch."""
        for stream in self.streams():
            stream.prepare()

    def start(self, zero_time_ms: int) -> None:
        """Fix zero time and the remember durations, and start the inputs."""
        if self.zero_time_ms is not None:
            raise StreamingStateError("the graph was started already")
        self.zero_time_ms = zero_time_ms
        self._state_partitions = self.free_slots()
        remember_classes(self.spark_context)
        for output in self.outputs:
            output.initialize(zero_time_ms)
        for output in self.outputs:
            output.remember(self.remember_ms or 0)
        for stream in self.inputs:
            stream.start()

    def stop(self) -> None:
        """Stop the inputs, and the retries of outputs."""
        self.stopping.set()
        for stream in self.inputs:
            stream.stop()

    @property
    def is_spark_stopped(self) -> bool:
        """Whether the program has stopped the SparkContext."""
        return is_closed(self.spark_context)

    def generate_jobs(self, time_ms: int) -> list[Job]:
        """Generate the batch's jobs, in the order in which the program registered its outputs."""
        jobs: list[Job | None] = []
        self.slowest = (0.0, "")
        with self.lock:
            self.last_time_ms = time_ms
            for output in self.outputs:
                before_ms = self.runtime.monotonic_ms()
                jobs.append(output.generate_job(time_ms))
                self.slowest = max(self.slowest, (self.runtime.monotonic_ms() - before_ms, output.call_site.short))
        return [job for job in jobs if job is not None]

    def failed_jobs(self, error: BaseException) -> list[Job]:
        """Jobs that fail with the reason why the batch was not generated, so that the batch completes."""
        return [output.failed_job(error) for output in self.outputs]

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        """Forget RDDs that no stream needs after batch ``time_ms`` is complete."""
        with self.lock:
            # A stream before its parents: it may still use their RDDs.
            streams = self.streams()
            for stream in reversed(streams):
                stream.clear_metadata(time_ms, unpersist=unpersist)
            limit_ms = time_ms - max((stream.remember_ms for stream in streams), default=0)
            self.unallocated = {time for time in self.unallocated if time > limit_ms}
            # Jobs that were dropped before they ran did not retry.
            for time in [time for time in self.retrying if time <= time_ms]:
                del self.retrying[time]

    @property
    def max_input_remember_ms(self) -> int:
        """The longest remember duration of an input stream; inputs without outputs remember nothing."""
        return max((stream.remember_ms for stream in self.inputs), default=self.batch_interval_ms)

    def receivers(self) -> Iterable[tuple[int, Any]]:
        """The receivers of the input streams that have one, by stream id."""
        return [(stream.id, stream.receiver) for stream in self.inputs if stream.receiver is not None]
