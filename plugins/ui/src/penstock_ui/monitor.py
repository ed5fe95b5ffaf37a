"""``Monitor``: the listener that feeds the metrics store of a running application.

It samples engine state that no event reports, and forwards every event of the store to the sinks: event log and
OpenTelemetry. Callbacks run on the listener's own thread, ``snapshot`` on the server's threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from attrs import evolve

import penstock
from penstock import (
    BatchCompleted,
    BatchStarted,
    BatchSubmitted,
    CheckpointFailed,
    ListenerContext,
    OutputOperationCompleted,
    OutputOperationStarted,
    PenstockError,
    ReceiverError,
    ReceiverInfo,
    ReceiverStarted,
    ReceiverStopped,
    SourceStatus,
    StopProgress,
    StoreTimes,
    StreamingStarted,
)
from penstock.spi import Redaction, get_logger, secret_names
from penstock_ui.own_events import (
    ApplicationDescribed,
    JobsRun,
    RateChanged,
    Sampled,
    StagesRun,
    StreamDescribed,
    Taken,
)
from penstock_ui.snapshot import Application, Listener, Snapshot, Storage
from penstock_ui.spark_jobs import JobInfo, JobQuery, no_jobs
from penstock_ui.spark_stages import SparkStages
from penstock_ui.store import MetricsStore

log = get_logger("ui")

# Minimum time between two samples of the engine, unless a batch ended.
_SAMPLE_S = 1.0
# Minimum time between two samples of where the time of receivers goes, and the most of them per second.
_TIMES_S, _TIMES_PER_S = 5.0, 100
# Maximum number of Spark jobs per query: new jobs, and jobs that were running at the last query.
_MOST_JOBS, _MOST_OPEN_JOBS = 500, 20
_LAST_PHASE = "listeners"
# At the end, how long to wait for jobs that Spark has not published yet.
_LAST_WAIT_S = 2.0


class Sink(Protocol):
    """Receives every event of the store. Must return at once."""

    def take(self, event: Taken) -> None:
        """Take an event."""
        ...

    def close(self) -> None:
        """Export pending events and release resources. May be called again."""
        ...


class Monitor:
    """Listens to a running application, and provides its snapshots.

    Args:
        context: the application.
        store: builds the state from the events.
        sinks: receive every event after the store.
        jobs: returns Spark's jobs.
    """

    never_drop = True

    def __init__(
        self,
        context: ListenerContext,
        store: MetricsStore,
        sinks: Sequence[Sink] = (),
        jobs: JobQuery = no_jobs,
    ) -> None:
        self._context = context
        self._jobs = jobs
        self._store = store
        self._sinks = tuple(sinks)
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._sampled_ms = self._asked_ms = self._timed_ms = -1
        self._next_job = 0
        self._open_jobs = dict[int, JobInfo]()
        self._stages = SparkStages(context.spark_ui_url, context.application_id)
        # The batch whose stages were asked for last, and its jobs.
        self._staged: tuple[int, set[int]] = (0, set())
        self._is_closed = False
        self._receivers: dict[int, ReceiverInfo] = {}
        self._sources: dict[int, SourceStatus | None] = {}
        self._rate_limits: dict[int, float | None] = {}
        self._closing: list[Callable[[], object]] = [sink.close for sink in sinks]
        self._take(describe(context))

    def snapshot(self) -> Snapshot:
        """The state of the application now."""
        self._ask_for_jobs()
        with self._lock:
            now_ms = self._context.now_ms()
            if not self._is_closed and now_ms - self._sampled_ms >= _SAMPLE_S * 1000:
                self._sample(now_ms)
            return self._store.snapshot(now_ms)

    def at_close(self, action: Callable[[], object]) -> None:
        """Call a function when the application has stopped, before the sinks are closed."""
        self._closing.insert(0, action)

    def close(self) -> None:
        """Close the sinks after the application has stopped. May be called again."""
        with self._lock:
            self._is_closed = True
            closing, self._closing = self._closing, []
        for action in closing:
            try:
                action()
            except Exception as error:
                log.warning(
                    "monitoring not closed",
                    part=getattr(action, "__qualname__", type(action).__name__),
                    reason=str(error),
                )

    # -- events --

    def onStreamingStarted(self, streamingStarted: StreamingStarted) -> None:
        """The context has started."""
        self._take(streamingStarted)

    def onReceiverStarted(self, receiverStarted: ReceiverStarted) -> None:
        """A receiver registered."""
        self._take(receiverStarted)

    def onReceiverError(self, receiverError: ReceiverError) -> None:
        """A receiver reported an error."""
        self._take(receiverError)

    def onReceiverStopped(self, receiverStopped: ReceiverStopped) -> None:
        """A receiver stopped."""
        self._take(receiverStopped)

    def onBatchSubmitted(self, batchSubmitted: BatchSubmitted) -> None:
        """A batch waits."""
        self._take(batchSubmitted)

    def onBatchStarted(self, batchStarted: BatchStarted) -> None:
        """A batch runs."""
        self._take(batchStarted)

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        """A batch ended: sample the engine state that changes with it."""
        self._take(batchCompleted)
        self._ask_for_jobs()
        with self._lock:
            self._sample(self._context.now_ms())

    def onOutputOperationStarted(self, outputOperationStarted: OutputOperationStarted) -> None:
        """An output operation runs."""
        self._take(outputOperationStarted)

    def onOutputOperationCompleted(self, outputOperationCompleted: OutputOperationCompleted) -> None:
        """An output operation ended."""
        self._take(outputOperationCompleted)

    def onCheckpointFailed(self, checkpointFailed: CheckpointFailed) -> None:
        """Checkpoints cannot be written."""
        self._take(checkpointFailed)

    def onStopProgress(self, stopProgress: StopProgress) -> None:
        """The context is stopping; after the last phase the monitor closes."""
        self._take(stopProgress)
        if not stopProgress.batches_left:
            self._ask_for_jobs(is_last=True)
        if stopProgress.phase == _LAST_PHASE:
            self.close()

    def _take(self, event: Taken) -> None:
        with self._lock:
            self._apply(event)

    def _apply(self, event: Taken) -> None:
        self._store.apply(event)
        for sink in self._sinks:
            sink.take(event)

    # -- samples of the engine --

    def _sample(self, now_ms: int) -> None:
        self._sampled_ms = now_ms
        # The engine may be stopping, and a plugin's estimator may be missing.
        with suppress(PenstockError, OSError):
            for stream in self._context.receiver_streams:
                self._sample_rate(stream.stream_id, now_ms)
            infos = self._context.receiver_infos()
            # Without source and times, which change all the time: an info may contain long errors.
            rest = {id_: evolve(info, source=None, times=None) for id_, info in infos.items()}
            sources = {id_: info.source for id_, info in infos.items()}
            changed = tuple(info for id_, info in infos.items() if rest[id_] != self._receivers.get(id_))
            changed_sources = {id_: source for id_, source in sources.items() if source != self._sources.get(id_)}
            self._receivers = rest
            self._sources = sources
            stored = self._context.storage()
            storage = Storage(
                self._context.backlog_bytes(),
                stored.blocks,
                stored.block_bytes,
                stored.buffered_bytes,
                stored.driver_log_bytes,
                stored.checkpoint_ms,
                stored.checkpoint_failures,
                failed_batches=stored.failed_batches,
                oldest_failed_ms=stored.oldest_failed_ms,
            )
            counts = self._context.listener_counts()
            listeners = tuple(
                Listener(listener.name, listener.dropped, listener.failed, listener.disabled) for listener in counts
            )
            self._apply(Sampled(now_ms, storage, listeners, changed, changed_sources, self._times(infos, now_ms)))

    def _times(self, infos: Mapping[int, ReceiverInfo], now_ms: int) -> dict[int, StoreTimes]:
        if now_ms - self._timed_ms < 1000 * max(_TIMES_S, len(infos) / _TIMES_PER_S):
            return {}
        self._timed_ms = now_ms
        return {id_: info.times for id_, info in infos.items() if info.times is not None}

    def _sample_rate(self, stream_id: int, now_ms: int) -> None:
        limit = self._context.rate_limit(stream_id)
        if stream_id in self._rate_limits and self._rate_limits[stream_id] == limit:
            return
        if stream_id not in self._rate_limits and limit is None:
            self._rate_limits[stream_id] = None
            return
        self._rate_limits[stream_id] = limit
        estimator = self._context.rate_estimator(stream_id)
        self._apply(RateChanged(now_ms, stream_id, limit, "" if estimator is None else str(estimator.reason)))

    def _ask_for_jobs(self, *, is_last: bool = False) -> None:
        """Ask Spark for jobs of batches, at most once a second and on one thread at a time.

        Args:
            is_last: this is the last query, so wait for another thread's query and for Spark's delay.
        """
        if self._is_closed or not self._asking.acquire(blocking=is_last):
            return
        try:
            now_ms = self._context.now_ms()
            if is_last or now_ms - self._asked_ms >= _SAMPLE_S * 1000:
                self._asked_ms = now_ms
                if changed := self._changed_jobs(_LAST_WAIT_S if is_last else 0.0):
                    self._take(JobsRun(changed))
                    self._ask_for_stages(changed)
        # Py4J has several errors for a JVM that has ended.
        except Exception as error:
            log.info("Spark jobs unknown", reason=str(error), throttle_s=60)
        finally:
            self._asking.release()

    def _ask_for_stages(self, changed: Sequence[JobInfo]) -> None:
        """Ask Spark for the stages of the newest batch that has just had a job that ended."""
        ended = [job for job in changed if job.completed_ms is not None]
        newest = max((job.batch_time or 0 for job in ended), default=0)
        # A batch may have had other jobs that ended before.
        if self._staged[0] != newest:
            self._staged = newest, set()
        self._staged[1].update(job.job_id for job in ended if job.batch_time == newest)
        if ended and (stages := self._stages.of_jobs(sorted(self._staged[1]))):
            self._take(StagesRun(newest, stages))

    def _changed_jobs(self, wait_s: float) -> tuple[JobInfo, ...]:
        """Jobs of batches that are new, or have changed since they were last seen."""
        # Read new jobs first: the call waits, and earlier jobs may have ended meanwhile.
        new = self._jobs(self._next_job, _MOST_JOBS, wait_s)
        seen = [job for job_id in self._open_jobs for job in self._jobs(job_id, 1, 0.0) if job.job_id == job_id]
        if new:
            self._next_job = new[-1].job_id + 1
        jobs = [job for job in (*seen, *new) if job.batch_time is not None]
        changed = tuple(job for job in jobs if job != self._open_jobs.get(job.job_id))
        open_jobs = [job for job in jobs if job.completed_ms is None]
        self._open_jobs = {job.job_id: job for job in open_jobs[-_MOST_OPEN_JOBS:]}
        return changed


def describe(context: ListenerContext) -> ApplicationDescribed:
    """Describe the application before it starts."""
    application = Application(
        context.application_id,
        context.application_name,
        context.batch_interval_ms,
        context.spark_ui_url,
        penstock.__version__,
    )
    graph = tuple(context.graph())
    streams: dict[int, Any] = {
        node.stream_id: StreamDescribed(node.stream_id, node.name or f"{node.type}-{node.stream_id}", node.type, False)
        for node in graph
        if node.stream_id is not None
    }
    for stream in context.receiver_streams:
        streams[stream.stream_id] = StreamDescribed(stream.stream_id, stream.name, stream.receiver_type, True)
    described = tuple(streams[id_] for id_ in sorted(streams))
    return ApplicationDescribed(application, described, graph, without_secrets(context.configuration))


def without_secrets(configuration: Mapping[str, str]) -> dict[str, str]:
    """A configuration with ``***`` in place of secrets, and of what contains one."""
    names = secret_names(configuration)
    secrets = {key: value for key, value in configuration.items() if names.search(key)}
    redaction = Redaction.of(names, secrets.values())
    return {key: "***" if key in secrets else redaction.apply(value) for key, value in configuration.items()}
