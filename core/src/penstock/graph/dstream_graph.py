"""``DStreamGraph``: the streams of a program, and what each batch makes of them.

Owns the input streams and the output streams in the order of their registration, the batch interval, zero time, and
the doors to the rest of the engine. Only streams that an output reaches are computed.
Built on the program's thread, used on the generator's loop.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import ConfigurationError, StreamingStateError

if TYPE_CHECKING:
    from datetime import tzinfo

    from penstock.graph.failure_ledger import FailureLedger
    from penstock.graph.input_stream import InputDStream
    from penstock.graph.job import Job
    from penstock.graph.output_stream import ForEachDStream
    from penstock.graph.stream import Stream
    from penstock.graph.table import TableDStream
    from penstock.listen.events import StreamInputInfo
    from penstock.spark.located_rdd import LocatedPartition
    from penstock.worker.block_reader import ReadBlocks


class ReportInput(Protocol):
    """Notes what a stream gives to a batch."""

    def __call__(self, batch_time_ms: int, info: StreamInputInfo, count: Callable[[], int] | None = None, /) -> None:
        """Note it; ``count`` is asked for the true number of records when the batch's jobs have ended."""
        ...


class ReceivedBlocks(Protocol):
    """What a receiver input stream asks of the tracker."""

    def partitions(self, batch_time_ms: int, stream_id: int) -> list[LocatedPartition]:
        """The batch's blocks, as partitions of references."""
        ...

    def count(self, batch_time_ms: int, stream_id: int) -> int:
        """The batch's records."""
        ...

    def rate_limit(self, stream_id: int) -> float | None:
        """What the receiver keeps to now, records/s; ``None`` for no limit."""
        ...

    @property
    def reader(self) -> ReadBlocks:
        """What tasks read the references with."""
        ...


class OutputsDone(Protocol):
    """Knows which output operations need not be repeated."""

    def note(self, time_ms: int, output_op_id: int) -> None:
        """One of a batch is done."""
        ...

    def has(self, time_ms: int, output_op_id: int) -> bool:
        """Whether one of a batch was done, in this run or one before."""
        ...


class DStreamGraph:
    """The graph of one context.

    Args:
        batch_interval_ms: between two batches.
    """

    def __init__(self, batch_interval_ms: int) -> None:
        self.batch_interval_ms = batch_interval_ms
        self.zero_time_ms: int | None = None
        #: Of the youngest batch.
        self.last_time_ms = -1
        self.inputs: list[InputDStream] = []
        self.outputs: list[ForEachDStream] = []
        self.num_streams = 0
        self.remember_ms: int | None = None
        self.checkpoint_directory: str | None = None
        #: Where in it this run keeps states.
        self.state_home = ""
        #: The batch behind which a run that goes on from the oldest checkpoint needs states; none without checkpoints.
        self.recoverable_ms: Sequence[int] = ()
        #: Is given the path of a checkpointed RDD that no stream needs any more.
        self.discard: Callable[[str], object] = lambda _path: None
        self._ledgers: list[FailureLedger] = []
        #: Of the times that the program's functions get; ``None``: local and naive, as PySpark's.
        self.time_zone: tzinfo | None = None
        # Set by the context before start.
        self.received_blocks: ReceivedBlocks | None = None
        self.report_input: ReportInput = lambda _time_ms, _info, _count=None: None
        self.outputs_done: OutputsDone | None = None
        self.generation_retries = 0
        #: Told batch time and output operation before what the output needs is made: Spark jobs may be run for it.
        self.before_output: Callable[[int, int], object] = lambda _time_ms, _output_op_id: None
        self.monotonic_ms: Callable[[], float] = lambda: 0.0
        #: Of the last batch: the longest that an output took to make its job, in milliseconds, and where it is.
        self.slowest = (0.0, "")
        #: Batches some of whose outputs could not be made, and are still to be tried again: how many outputs, by time.
        self.unmade: Counter[int] = Counter()
        #: Set by ``stop``: no output is waited for any more.
        self.stopping = threading.Event()
        #: Held while RDDs are made or forgotten: by the generator's loop, and by who asks for old ones (``slice``).
        self.lock = threading.RLock()

    def add_input(self, stream: InputDStream) -> int:
        """Register an input stream and return its id, counted from 0."""
        with self.lock:
            self.inputs.append(stream)
            return len(self.inputs) - 1

    def add_output(self, stream: ForEachDStream) -> int:
        """Register an output stream and return its id, counted from 0."""
        with self.lock:
            self.outputs.append(stream)
            return len(self.outputs) - 1

    def count_stream(self) -> int:
        """Number a stream, counted from 0."""
        with self.lock:
            self.num_streams += 1
            return self.num_streams - 1

    def tables(self) -> list[TableDStream]:
        """The streams that carry something on from batch to batch and that an output reaches, as they were made."""
        from penstock.graph.table import TableDStream  # a DStream itself

        return [stream for stream in self.streams() if isinstance(stream, TableDStream)]

    def make_tables(self, times_ms: Iterable[int]) -> None:
        """Carry every table on, in the order of times; no job is run."""
        tables = self.tables()
        with self.lock:
            for time_ms in times_ms:
                for table in tables:
                    table.get_or_compute(time_ms)

    @property
    def needs_every_batch(self) -> bool:
        """Whether some stream is made of several batches."""
        return any(stream.spans_batches for stream in self.streams())

    def streams(self) -> list[Stream[Any]]:
        """The streams that an output reaches, in the order in which the program made them."""
        reached: dict[int, Stream[Any]] = {}
        waiting: list[Stream[Any]] = list(self.outputs)
        while waiting:
            stream = waiting.pop()
            if stream.number not in reached:
                reached[stream.number] = stream
                waiting.extend(stream.parents)
        return [stream for _number, stream in sorted(reached.items())]

    def add_ledger(self, ledger: FailureLedger) -> FailureLedger:
        """Look into a ledger at the end of every job."""
        with self.lock:
            self._ledgers.append(ledger)
        return ledger

    def raise_failures(self) -> None:
        """Raise what state functions failed on in a job that ended.

        Raises:
            StateUpdateError: there is something.
        """
        for ledger in self._ledgers:
            ledger.raise_failures()

    def validate(self) -> None:
        """Check what can be checked before the start.

        Raises:
            ConfigurationError: there is nothing to execute.
        """
        if not self.outputs:
            raise ConfigurationError(
                "No output operations registered, so nothing to execute: add one, such as pprint() or foreachRDD(...)"
            )
        for output in self.outputs:
            output.validate()

    def start(self, zero_time_ms: int) -> None:
        """Fix zero time, settle what each stream must remember, start the inputs.

        Raises:
            StreamingStateError: it was started before.
        """
        if self.zero_time_ms is not None:
            raise StreamingStateError("the graph was started already")
        self.zero_time_ms = zero_time_ms
        for output in self.outputs:
            output.initialize(zero_time_ms)
        for output in self.outputs:
            output.remember(self.remember_ms or 0)
        for stream in self.inputs:
            stream.start()

    def stop(self) -> None:
        """Stop the inputs, and the further tries of outputs that failed."""
        self.stopping.set()
        for stream in self.inputs:
            stream.stop()

    def generate_jobs(self, time_ms: int) -> list[Job]:
        """Make the batch's jobs, in the order in which the program registered its outputs."""
        jobs: list[Job | None] = []
        self.slowest = (0.0, "")
        with self.lock:
            self.last_time_ms = time_ms
            for output in self.outputs:
                before_ms = self.monotonic_ms()
                jobs.append(output.generate_job(time_ms))
                self.slowest = max(self.slowest, (self.monotonic_ms() - before_ms, output.call_site.short))
        return [job for job in jobs if job is not None]

    def failed_jobs(self, error: BaseException) -> list[Job]:
        """The jobs of a batch that could not be made: each fails with the reason, so that the batch has an end."""
        return [output.failed_job(error) for output in self.outputs]

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        """Forget the RDDs that no stream needs once batch ``time_ms`` is done."""
        with self.lock:
            for output in self.outputs:
                output.clear_metadata(time_ms, unpersist=unpersist)
            # Jobs that were given up before they ran have tried nothing again.
            for time in [time for time in self.unmade if time <= time_ms]:
                del self.unmade[time]

    @property
    def max_input_remember_ms(self) -> int:
        """How long the input that is remembered longest is remembered; inputs that nobody uses do not count."""
        return max((stream.remember_ms for stream in self.inputs), default=self.batch_interval_ms)

    def receivers(self) -> Iterable[tuple[int, Any]]:
        """The receivers of the input streams that have one, by stream id."""
        return [(stream.id, stream.receiver) for stream in self.inputs if stream.receiver is not None]
