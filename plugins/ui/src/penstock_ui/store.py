"""``MetricsStore``: builds the ``Snapshot`` of an application from its events.

The same store serves a running application and an event log. It reads no clock, starts no thread and queries nothing.
The cost of an event does not depend on the number of retained batches. Events may be missing, repeated or out of order;
events about unknown things are ignored. Not thread-safe.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import TypeVar

from attrs import evolve, frozen

from penstock import (
    BatchCompleted,
    BatchInfo,
    BatchStarted,
    BatchSubmitted,
    CheckpointFailed,
    OutputOperationCompleted,
    OutputOperationInfo,
    OutputOperationStarted,
    ReceiverError,
    ReceiverInfo,
    ReceiverStarted,
    ReceiverStopped,
    StopProgress,
    StoreTimes,
    StreamingStarted,
)
from penstock_ui.batch_records import (
    MOST_JOBS,
    after_rerun,
    batch_of,
    num_details,
    operation_of,
    with_jobs,
    with_operations,
)
from penstock_ui.own_events import (
    ApplicationDescribed,
    CountsCarried,
    JobsRun,
    RateChanged,
    Sampled,
    StagesRun,
    StreamDescribed,
    Taken,
)
from penstock_ui.snapshot import (
    Application,
    Batch,
    BatchStatus,
    Listener,
    RateChange,
    Snapshot,
    Storage,
    Stream,
    Totals,
)
from penstock_ui.spark_jobs import JobInfo
from penstock_ui.spark_stages import StageRun
from penstock_ui.time_budget import TimeBudget, since, time_budget

K = TypeVar("K")
V = TypeVar("V")

# Batches whose jobs are retained before their submission: a program's `transform` may run jobs that early.
_MOST_EARLY = 10
# The time budget of a receiver is that of its last minute.
_BUDGET_MS = 60_000
# The last phase of a stop: nothing follows it.
_LAST_PHASE = "listeners"


@frozen
class Limits:
    """Limits of what the store retains.

    Attributes:
        batches: completed batches.
        unfinished: waiting and running batches. If there are more, their last events have been lost.
        details: inputs, output operations and Spark jobs of completed batches together; the oldest batches lose
            theirs first.
        rate_changes: changes of the rate limit, per stream.
    """

    batches: int = 1000
    unfinished: int = 10_000
    details: int = 50_000
    rate_changes: int = 100


class MetricsStore:
    """The state of one application.

    Args:
        limits: amounts to retain.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._application = Application()
        self._graph: ApplicationDescribed | None = None
        self._started_ms: int | None = None
        self._stop_phase = ""
        self._is_live = False
        self._totals = Totals()
        # By batch time; completed batches are in the order of their completion.
        self._unfinished: dict[int, Batch] = {}
        self._completed: dict[int, Batch] = {}
        self._early_jobs: dict[int, list[JobInfo]] = {}
        # Completed batches that still have their details, oldest first, and the number of details.
        self._detailed: deque[int] = deque()
        self._details = 0
        # By stream id.
        self._described: dict[int, StreamDescribed] = {}
        self._receivers: dict[int, ReceiverInfo] = {}
        self._starts: Counter[int] = Counter()
        self._errors: Counter[int] = Counter()
        self._records: Counter[int] = Counter()
        self._rate_limits: dict[int, float | None] = {}
        self._rate_changes: dict[int, deque[RateChange]] = {}
        # Samples of the last minute, and the one before.
        self._times: dict[int, deque[tuple[int, StoreTimes]]] = {}
        self._storage = Storage()
        self._listeners = tuple[Listener, ...]()
        self._snapshot = Snapshot()
        #: Increases with every event.
        self.version = 0
        #: The latest time of any event.
        self.time_ms = 0

    def apply(self, event: Taken) -> None:
        """Update the state with an event."""
        self.version += 1
        match event:
            case BatchSubmitted(batchInfo=info):
                self._on_batch_submitted(info)
            case BatchStarted(batchInfo=info):
                self._on_batch_started(info)
            case BatchCompleted(batchInfo=info):
                self._on_batch_completed(info)
            case OutputOperationStarted(outputOperationInfo=info) | OutputOperationCompleted(outputOperationInfo=info):
                self._on_operation(info)
            case ReceiverStarted(receiverInfo=receiver):
                self._receivers[receiver.streamId] = receiver
                self._starts[receiver.streamId] += 1
            case ReceiverError(receiverInfo=receiver):
                self._receivers[receiver.streamId] = receiver
                self._errors[receiver.streamId] += 1
                self._at(receiver.lastErrorTime)
            case ReceiverStopped(receiverInfo=receiver):
                self._receivers[receiver.streamId] = receiver
            case StreamingStarted(time=time):
                self._started_ms = time
                self._is_live = True
                self._at(time)
            case CheckpointFailed(time=time, failures=failures, reason=reason):
                self._storage = evolve(self._storage, checkpoint_failures=failures, checkpoint_error=reason)
                self._at(time)
            case StopProgress(time=time, phase=phase):
                self._stop_phase = phase
                self._is_live = phase != _LAST_PHASE
                self._at(time)
            case RateChanged(time=time, streamId=stream_id, rate_limit=limit, reason=reason):
                self._rate_limits[stream_id] = limit
                changes = self._rate_changes.setdefault(stream_id, deque(maxlen=self._limits.rate_changes))
                changes.append(RateChange(time, limit, reason))
                self._at(time)
            case Sampled():
                self._on_sampled(event)
            case JobsRun(jobs=jobs):
                self._on_jobs(jobs)
            case StagesRun(batch_time=batch_time, stages=stages):
                self._on_stages(batch_time, stages)
            case ApplicationDescribed():
                self._application = event.application
                self._graph = event
                self._is_live = True
                self._described = {stream.id: stream for stream in event.streams}
            case CountsCarried():
                self._on_counts(event)

    def snapshot(self, now_ms: int | None = None) -> Snapshot:
        """The current state. Returns the previous object if nothing has changed.

        Args:
            now_ms: the time; by default the time of the newest event.
        """
        if self._snapshot.version != self.version:
            batches = sorted([*self._completed.values(), *self._unfinished.values()], key=lambda batch: batch.time_ms)
            self._snapshot = Snapshot(
                version=self.version,
                time_ms=self.time_ms if now_ms is None else now_ms,
                is_live=self._is_live,
                stop_phase=self._stop_phase,
                started_ms=self._started_ms,
                application=self._application,
                streams=self._streams(),
                batches=tuple(batches),
                totals=self._totals,
                storage=self._storage,
                listeners=self._listeners,
                graph=() if self._graph is None else self._graph.graph,
            )
        return self._snapshot

    def ended(self) -> None:
        """Mark the application as ended, even if its last events are missing."""
        self.version += 1
        self._is_live = False

    def counts(self) -> CountsCarried:
        """The current counts, for a new file of the event log."""
        return CountsCarried(
            self.time_ms,
            self._started_ms,
            self._totals,
            dict(self._records),
            dict(self._starts),
            dict(self._errors),
            dict(self._rate_limits),
            {
                batch.time_ms: batch.records
                for batch in self._unfinished.values()
                if batch.status is BatchStatus.PROCESSING
            },
        )

    def _streams(self) -> tuple[Stream, ...]:
        ids = {*self._described, *self._receivers, *self._records, *self._rate_limits}
        return tuple(self._stream(stream_id) for stream_id in sorted(ids))

    def _stream(self, stream_id: int) -> Stream:
        receiver, described = self._receivers.get(stream_id), self._described.get(stream_id)
        if described is None:
            name = f"stream-{stream_id}" if receiver is None else receiver.name
            described = StreamDescribed(stream_id, name, "", receiver is not None)
        return Stream(
            stream_id,
            described.name,
            described.type,
            described.has_receiver,
            receiver,
            self._starts[stream_id],
            self._errors[stream_id],
            self._records[stream_id],
            self._rate_limits.get(stream_id),
            tuple(self._rate_changes.get(stream_id, ())),
            self._budget(stream_id),
        )

    def _budget(self, stream_id: int) -> TimeBudget | None:
        samples = self._times.get(stream_id)
        if not samples:
            return None
        return time_budget(since(samples[0][1] if len(samples) > 1 else None, samples[-1][1]))

    # -- batches --

    def _on_batch_submitted(self, info: BatchInfo) -> None:
        self._at(info.submissionTime)
        if info.batchTime not in self._completed and info.batchTime not in self._unfinished:
            self._unfinished[info.batchTime] = self._batch(info, BatchStatus.QUEUED)
            _drop_oldest(self._unfinished, self._limits.unfinished)

    def _on_batch_started(self, info: BatchInfo) -> None:
        self._at(info.processingStartTime)
        if info.batchTime in self._completed:
            return
        earlier = self._unfinished.get(info.batchTime)
        if earlier is None or earlier.status is BatchStatus.QUEUED:
            self._totals = evolve(self._totals, received_records=self._totals.received_records + info.numRecords)
        self._unfinished[info.batchTime] = self._batch(info, BatchStatus.PROCESSING, earlier)
        _drop_oldest(self._unfinished, self._limits.unfinished)

    def _on_batch_completed(self, info: BatchInfo) -> None:
        self._at(info.processingEndTime)
        earlier = self._unfinished.pop(info.batchTime, None)
        if info.batchTime in self._completed:
            return
        batch = self._batch(info, BatchStatus.COMPLETED, earlier)
        # The records of files and queues are counted only when they have been read.
        uncounted = (
            batch.records
            if earlier is None or earlier.status is BatchStatus.QUEUED
            else batch.records - earlier.records
        )
        self._totals = Totals(
            self._totals.completed_batches + 1,
            self._totals.failed_batches + (batch.num_failed > 0),
            self._totals.received_records + uncounted,
            self._totals.processed_records + batch.records,
        )
        for stream_id, stream_input in info.streamIdToInputInfo.items():
            self._records[stream_id] += stream_input.numRecords
        self._retain(batch)

    def _on_operation(self, info: OutputOperationInfo) -> None:
        self._at(info.endTime or info.startTime)
        batch = self._unfinished.get(info.batchTime)
        if batch is not None:
            operations = {operation.id: operation for operation in batch.operations or ()}
            operations[info.id] = operation_of(info, operations.get(info.id))
            self._unfinished[info.batchTime] = with_operations(batch, operations)
        elif (failed := self._completed.get(info.batchTime)) is not None and failed.awaits_rerun:
            self._completed[failed.time_ms] = after_rerun(failed, info)

    def _on_jobs(self, jobs: Iterable[JobInfo]) -> None:
        by_batch: dict[int, list[JobInfo]] = {}
        for job in jobs:
            if job.batch_time is not None:
                by_batch.setdefault(job.batch_time, []).append(job)
        for time_ms, new_jobs in by_batch.items():
            if time_ms in self._unfinished:
                self._unfinished[time_ms] = with_jobs(self._unfinished[time_ms], new_jobs)
            elif time_ms in self._completed:
                before = self._completed[time_ms]
                self._completed[time_ms] = after = with_jobs(before, new_jobs)
                self._details += num_details(after) - num_details(before)
            else:
                self._early_jobs[time_ms] = [*self._early_jobs.get(time_ms, ()), *new_jobs][-MOST_JOBS:]
                _drop_oldest(self._early_jobs, _MOST_EARLY)
        self._bound()

    def _on_stages(self, batch_time: int, stages: tuple[StageRun, ...]) -> None:
        for batches in (self._unfinished, self._completed):
            # A batch without operations has lost its details.
            if (before := batches.get(batch_time)) is not None and before.operations is not None:
                batches[batch_time] = evolve(before, stages=stages)
                if batches is self._completed:
                    self._details += len(stages) - len(before.stages)
        self._bound()

    def _batch(self, info: BatchInfo, status: BatchStatus, earlier: Batch | None = None) -> Batch:
        batch = batch_of(info, status, earlier)
        early = self._early_jobs.pop(info.batchTime, None)
        return batch if early is None else with_jobs(batch, early)

    def _retain(self, batch: Batch) -> None:
        self._completed[batch.time_ms] = batch
        self._detailed.append(batch.time_ms)
        self._details += num_details(batch)
        self._bound()

    def _bound(self) -> None:
        while len(self._completed) > max(self._limits.batches, 1):
            oldest = next(iter(self._completed))
            self._details -= num_details(self._completed.pop(oldest))
        while self._details > self._limits.details and len(self._detailed) > 1:
            oldest = self._detailed.popleft()
            if (batch := self._completed.get(oldest)) is not None:
                self._details -= num_details(batch)
                self._completed[oldest] = evolve(batch, inputs=None, operations=None, stages=())
        while self._detailed and self._detailed[0] not in self._completed:
            self._detailed.popleft()

    # -- samples of the engine --

    def _on_sampled(self, event: Sampled) -> None:
        # The error of a failed checkpoint remains until a checkpoint is written.
        error = self._storage.checkpoint_error if event.storage.checkpoint_failures else ""
        self._storage = evolve(event.storage, checkpoint_error=event.storage.checkpoint_error or error)
        self._listeners = event.listeners
        for receiver in event.receivers:
            self._receivers[receiver.streamId] = receiver
        for stream_id, source in event.sources.items():
            # The file that described the receiver may have been deleted.
            if (known := self._receivers.get(stream_id)) is not None:
                self._receivers[stream_id] = evolve(known, source=source)
        for stream_id, times in event.times.items():
            samples = self._times.setdefault(stream_id, deque())
            samples.append((event.time, times))
            while len(samples) > 2 and samples[1][0] <= event.time - _BUDGET_MS:
                samples.popleft()
        self._at(event.time)

    def _on_counts(self, event: CountsCarried) -> None:
        """Continue from the counts of an earlier file, unless that file was read."""
        if event.totals.completed_batches < self._totals.completed_batches:
            return
        self._started_ms = event.started
        self._totals = event.totals
        self._records = Counter(event.records)
        self._starts = Counter(event.starts)
        self._errors = Counter(event.errors)
        self._rate_limits = dict(event.rate_limits)
        for time_ms, records in event.running.items():
            self._unfinished.setdefault(time_ms, Batch(time_ms, BatchStatus.PROCESSING, records))
        self._is_live = True
        self._at(event.time)

    def _at(self, time_ms: int | None) -> None:
        self.time_ms = max(self.time_ms, time_ms or 0)


def _drop_oldest(values: dict[K, V], most: int) -> None:
    while len(values) > most:
        del values[next(iter(values))]
