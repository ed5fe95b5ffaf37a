"""``Snapshot``: the state of one application at one moment, as an immutable value.

The metrics store builds it from the events of a running application or of an event log. The dashboard, REST,
Prometheus, the terminal and the history render only this snapshot. Times are milliseconds since the epoch, delays and
latencies are milliseconds, rates are records/s, sizes are bytes. ``None`` means not known (yet).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from math import ceil
from typing import Any, Protocol

from attrs import field, frozen

from penstock import DStreamInfo, ReceiverInfo, StreamInputInfo
from penstock_ui.spark_jobs import JobInfo
from penstock_ui.spark_stages import StageRun
from penstock_ui.time_budget import TimeBudget


class BatchStatus(Enum):
    """The status of a batch, in the words of Spark's REST API."""

    QUEUED = "QUEUED"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"


@frozen
class Application:
    """Facts about an application that do not change while it runs.

    Attributes:
        id: the Spark application's id.
        name: the Spark application's name.
        batch_interval_ms: milliseconds between two batches.
        spark_ui_url: Spark's own UI; empty when it is off or unknown.
        penstock_version: the version that the application runs with.
    """

    id: str = ""
    name: str = ""
    batch_interval_ms: int = 1000
    spark_ui_url: str = ""
    penstock_version: str = ""


@frozen
class Operation:
    """One output operation of one batch.

    Attributes:
        id: 0, 1, … in the order in which the program made its output operations.
        name: its call site, short.
        description: its call site with the full path.
        started_ms: when it started.
        ended_ms: when it ended.
        failure: the traceback when it failed; a very long one is truncated.
        jobs: its known Spark jobs, by id.
        metadata: describes the output, if its function did: numbers and texts by name.
    """

    id: int
    name: str = ""
    description: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None
    failure: str | None = None
    jobs: tuple[JobInfo, ...] = ()
    metadata: Mapping[str, Any] = field(factory=dict)

    @property
    def duration_ms(self) -> int | None:
        """From its start to its end."""
        return None if self.started_ms is None or self.ended_ms is None else self.ended_ms - self.started_ms


@frozen
class Batch:
    """One batch.

    Attributes:
        time_ms: the batch time: the end of the interval whose data it contains. Identifies the batch.
        status: queued, processing or completed.
        records: records of all streams.
        submitted_ms: when its jobs were submitted.
        started_ms: when its first job started.
        ended_ms: when its last job ended or the batch was abandoned.
        latency_ms: from the arrival of its earliest record at a receiver to its end: the end-to-end latency.
        num_operations: its known output operations.
        num_succeeded: output operations that succeeded.
        num_failed: output operations that failed.
        first_failure: the traceback of the first output operation that failed, ``None`` if none did.
        inputs: the input by stream id; ``None`` for an old batch whose details were dropped to limit memory.
        operations: its output operations by id; ``None`` for an old batch whose details were dropped too.
        awaits_rerun: whether it has failed and will run again.
        stages: the stages of its Spark jobs; empty where Spark was not asked or does not know them any more.
    """

    time_ms: int
    status: BatchStatus
    records: int = 0
    submitted_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    latency_ms: int | None = None
    num_operations: int = 0
    num_succeeded: int = 0
    num_failed: int = 0
    first_failure: str | None = None
    inputs: Mapping[int, StreamInputInfo] | None = field(factory=dict)
    operations: tuple[Operation, ...] | None = ()
    awaits_rerun: bool = False
    stages: tuple[StageRun, ...] = ()

    @property
    def generation_delay_ms(self) -> int | None:
        """From the batch time to the submission of the jobs."""
        return None if self.submitted_ms is None else max(self.submitted_ms - self.time_ms, 0)

    @property
    def scheduling_delay_ms(self) -> int | None:
        """From submission to the start of the first job."""
        return _difference(self.submitted_ms, self.started_ms)

    @property
    def processing_delay_ms(self) -> int | None:
        """From the start of the first job to the end of the last."""
        return _difference(self.started_ms, self.ended_ms)

    @property
    def total_delay_ms(self) -> int | None:
        """From submission to the end of the last job."""
        return _difference(self.submitted_ms, self.ended_ms)

    @property
    def num_active(self) -> int:
        """Output operations that have not ended."""
        return max(self.num_operations - self.num_succeeded - self.num_failed, 0)

    @property
    def capacity_per_s(self) -> float | None:
        """The rate at which the batch was processed; ``None`` without records or duration."""
        took = self.processing_delay_ms
        return self.records * 1000 / took if took and self.records else None


@frozen
class RateChange:
    """A change of a receiver's rate limit.

    Attributes:
        time_ms: when the change was noticed, at the first batch event after it.
        limit: the new limit; ``None`` for no limit.
        reason: the rate estimator's explanation; empty when it gives none or no estimator is configured.
    """

    time_ms: int
    limit: float | None
    reason: str = ""


@frozen
class Stream:
    """One input stream.

    Attributes:
        id: the stream's id.
        name: given by ``setName``, or else ``<type>-<id>``.
        type: class of the receiver, or of the stream when the driver pulls its input.
        has_receiver: whether it has a receiver; false for files, queues and other pulled inputs.
        receiver: the receiver's state; ``None`` until it is known, and for streams without one.
        starts: how often the receiver registered.
        errors: how often it reported an error.
        records: records of all batches.
        rate_limit: the current limit; ``None`` for no limit.
        rate_changes: the last changes of the limit with the estimator's reasons, oldest first.
        budget: where the receiver's time has gone in the last minute; ``None`` until it is known.
    """

    id: int
    name: str
    type: str = ""
    has_receiver: bool = False
    receiver: ReceiverInfo | None = None
    starts: int = 0
    errors: int = 0
    records: int = 0
    rate_limit: float | None = None
    rate_changes: tuple[RateChange, ...] = ()
    budget: TimeBudget | None = None

    @property
    def is_active(self) -> bool:
        """Whether its receiver is registered."""
        return self.receiver is not None and self.receiver.active

    @property
    def restarts(self) -> int:
        """The number of restarts and relaunches of the receiver."""
        return max(self.starts - 1, 0)


@frozen
class Totals:
    """Counts since the application started; they include batches that are not retained.

    Attributes:
        completed_batches: batches that ended, successfully or not.
        failed_batches: batches that ended with a failed output operation.
        received_records: records of the batches that started.
        processed_records: records of the batches that ended.
    """

    completed_batches: int = 0
    failed_batches: int = 0
    received_records: int = 0
    processed_records: int = 0


@frozen
class Storage:
    """The application's stored data. Sampled about once per batch; ``None`` where the driver does not know it.

    Attributes:
        backlog_bytes: blocks that no batch has processed.
        blocks: stored blocks that are not cleaned up.
        block_disk_bytes: their size on the executors' disks, or in the receiver write-ahead log.
        buffered_bytes: records in the receivers' memory that are not in a stored block yet.
        driver_log_bytes: the driver write-ahead log.
        checkpoint_ms: when the last checkpoint was written.
        checkpoint_failures: consecutive checkpoints that could not be written.
        checkpoint_error: the last failure of a checkpoint, empty for none.
        failed_batches: failed batches that wait to run again.
        oldest_failed_ms: batch time of the oldest of them.
    """

    backlog_bytes: int | None = None
    blocks: int | None = None
    block_disk_bytes: int | None = None
    buffered_bytes: int | None = None
    driver_log_bytes: int | None = None
    checkpoint_ms: int | None = None
    checkpoint_failures: int = 0
    checkpoint_error: str = ""
    failed_batches: int = 0
    oldest_failed_ms: int | None = None


@frozen
class Listener:
    """One listener on the bus.

    Attributes:
        name: the plugin, with its distribution and version, or the class.
        dropped: events that it lost because it was too slow.
        failed: events that it raised on.
        disabled: whether the bus has disabled it.
    """

    name: str
    dropped: int = 0
    failed: int = 0
    disabled: bool = False


@frozen
class Distribution:
    """Percentiles of a delay over the retained batches, in ms."""

    count: int
    mean: float
    p50: int
    p95: int
    p99: int
    maximum: int

    @classmethod
    def of(cls, values: Iterable[int | None]) -> Distribution | None:
        """The distribution of the known values, by the nearest rank; ``None`` when there are none."""
        ordered = sorted(value for value in values if value is not None)
        if not ordered:
            return None

        def rank(share: float) -> int:
            return ordered[max(ceil(share * len(ordered)) - 1, 0)]

        return cls(len(ordered), sum(ordered) / len(ordered), rank(0.5), rank(0.95), rank(0.99), ordered[-1])


@frozen(slots=False)
class Snapshot:
    """The state of one application.

    Attributes:
        version: increases with every change; snapshots of one application with the same version are equal.
        time_ms: when it was taken; for a history, when the last event was logged.
        is_live: whether the application runs; false after its stop and for a history.
        stop_phase: the current phase of the stop; empty before the stop.
        started_ms: when the context started.
        application: the constant values: names, addresses, interval.
        streams: the input streams by id.
        batches: every waiting and running batch and the retained completed ones, by batch time.
        totals: counts since the start.
        storage: stored data and checkpoints.
        listeners: the listeners on the bus.
        graph: the DStream graph.
    """

    version: int = 0
    time_ms: int = 0
    is_live: bool = False
    stop_phase: str = ""
    started_ms: int | None = None
    application: Application = field(factory=Application)
    streams: tuple[Stream, ...] = ()
    batches: tuple[Batch, ...] = ()
    totals: Totals = field(factory=Totals)
    storage: Storage = field(factory=Storage)
    listeners: tuple[Listener, ...] = ()
    graph: Sequence[DStreamInfo] = ()

    @cached_property
    def completed(self) -> tuple[Batch, ...]:
        """The retained completed batches, by batch time."""
        return tuple(batch for batch in self.batches if batch.status is BatchStatus.COMPLETED)

    @cached_property
    def running(self) -> tuple[Batch, ...]:
        """The running batches, by batch time."""
        return tuple(batch for batch in self.batches if batch.status is BatchStatus.PROCESSING)

    @cached_property
    def waiting(self) -> tuple[Batch, ...]:
        """The waiting batches, by batch time."""
        return tuple(batch for batch in self.batches if batch.status is BatchStatus.QUEUED)

    @cached_property
    def receivers(self) -> tuple[Stream, ...]:
        """The streams that have a receiver."""
        return tuple(stream for stream in self.streams if stream.has_receiver)

    @property
    def active_receivers(self) -> int:
        """The number of registered receivers."""
        return sum(stream.is_active for stream in self.receivers)

    @cached_property
    def scheduling_delay(self) -> Distribution | None:
        """From submission to the start of the first job."""
        return Distribution.of(batch.scheduling_delay_ms for batch in self.completed)

    @cached_property
    def processing_delay(self) -> Distribution | None:
        """From the start of the first job to the end of the last."""
        return Distribution.of(batch.processing_delay_ms for batch in self.completed)

    @cached_property
    def total_delay(self) -> Distribution | None:
        """From submission to the end of the last job."""
        return Distribution.of(batch.total_delay_ms for batch in self.completed)

    @cached_property
    def generation_delay(self) -> Distribution | None:
        """From the batch time to the submission of the jobs."""
        return Distribution.of(batch.generation_delay_ms for batch in self.completed)

    @cached_property
    def latency(self) -> Distribution | None:
        """From the arrival of a batch's earliest record to the batch's end."""
        return Distribution.of(batch.latency_ms for batch in self.completed)

    def batch(self, time_ms: int) -> Batch | None:
        """The batch with this batch time; ``None`` when it is unknown or no longer retained."""
        return next((batch for batch in self.batches if batch.time_ms == time_ms), None)

    def stream(self, stream_id: int) -> Stream | None:
        """The stream with this id."""
        return next((stream for stream in self.streams if stream.id == stream_id), None)

    def input_rate(self, batch: Batch, stream_id: int | None = None) -> float:
        """The rate at which a batch's records arrived: of one stream, or of all. 0 for a stream without input."""
        records = batch.records
        if stream_id is not None:
            info = (batch.inputs or {}).get(stream_id)
            records = 0 if info is None else info.numRecords
        return records * 1000 / self.application.batch_interval_ms


class Source(Protocol):
    """Provides snapshots of a running application or a history. Any thread may call it."""

    def snapshot(self) -> Snapshot:
        """The state now."""
        ...


def _difference(start_ms: int | None, end_ms: int | None) -> int | None:
    return None if start_ms is None or end_ms is None else end_ms - start_ms


def error_line(text: str) -> str:
    """The line of a traceback that names the error, also of one that came through the JVM."""
    lines = [line for line in text.splitlines() if line.strip()]
    # Frames are indented.
    named = [line for line in lines if not line[0].isspace() and not line.startswith(("at ", "... ", "Traceback "))]
    return (named or lines or [text])[-1].strip()[:300]
