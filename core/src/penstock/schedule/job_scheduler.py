"""``JobScheduler``: runs the jobs of batches and posts the events about them.

Jobs run on the threads of a pool, first in, first out; the loop handles their start and end. A batch is no longer
pending when all its jobs have ended. If some have failed, it is then a failed batch: one that must run again, in this
run or a recovered one. A dropped batch, which failed without having started, is complete.
"""

from __future__ import annotations

import pickle
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, evolve, field

from penstock import conf
from penstock.conf import Settings
from penstock.errors import BatchFailedError
from penstock.graph.outputs import Job, output_failed
from penstock.listen.events import (
    BatchCompleted,
    BatchInfo,
    BatchStarted,
    BatchSubmitted,
    Event,
    OutputMetadata,
    OutputOperationCompleted,
    OutputOperationInfo,
    OutputOperationStarted,
    StreamInputInfo,
)
from penstock.runtime.clock import Clock, iso_time
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.log import bound_fields, get_logger
from penstock.runtime.retry import Backoff
from penstock.runtime.threads import EngineThread
from penstock.runtime.tracebacks import from_the_program
from penstock.schedule.input_info_tracker import InputInfoTracker
from penstock.spark import failure

log = get_logger("job_scheduler")

_PICKLING_ADVICE = (
    ". The functions of a program travel to executors, with the objects that they refer to: create locks, connections "
    "and clients inside them, for instance once for each partition in mapPartitions or foreachPartition"
)
# Minimum time for the loop to handle its queued events during a stop.
_LAST_EVENTS_S = 1.0
# The first and the longest delay before failed jobs run again.
_FIRST_DELAY_MS, _LONGEST_DELAY_MS = 1_000.0, 60_000.0
#: Sets Spark's local properties for a batch time and an output operation on the calling thread.
JobProperties = Callable[[int, int], object]


@define
class JobSet:
    """The jobs of one batch. After the submission, only the scheduler's loop changes it.

    ``final_info`` returns the input info when all jobs have ended. The scheduler's lock guards ``has_begun``.
    """

    time_ms: int
    jobs: Sequence[Job]
    input_info: Mapping[int, StreamInputInfo]
    submission_ms: int
    final_info: Callable[[], Mapping[int, StreamInputInfo]] = field(default=dict)
    has_begun: bool = field(default=False, init=False)
    is_generated: bool = field(default=True, init=False)
    reruns: int = field(default=0, init=False)
    _start_ms: int | None = field(default=None, init=False)
    _end_ms: int | None = field(default=None, init=False)
    _operations: dict[int, OutputOperationInfo] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._operations = {
            job.output_op_id: OutputOperationInfo(
                self.time_ms, job.output_op_id, job.call_site.short, job.call_site.long
            )
            for job in self.jobs
        }

    def start_job(self, output_op_id: int, now_ms: int) -> tuple[OutputOperationInfo, bool]:
        """Record the start of a job; the second result says whether it is the batch's first."""
        is_first = self._start_ms is None
        if is_first:
            self._start_ms = now_ms
        operation = evolve(self._operations[output_op_id], startTime=now_ms)
        self._operations[output_op_id] = operation
        return operation, is_first

    def end_job(
        self, output_op_id: int, now_ms: int, failure_reason: str | None, metadata: Mapping[str, Any]
    ) -> tuple[OutputOperationInfo, bool]:
        """Record the end of a job; the second result says whether it was the batch's last."""
        operation = evolve(
            self._operations[output_op_id], endTime=now_ms, failureReason=failure_reason, metadata=metadata
        )
        self._operations[output_op_id] = operation
        is_last = all(operation.endTime is not None for operation in self._operations.values())
        if is_last:
            self._end_ms = now_ms
            # The final info of a late batch may have been cleaned up: the earlier info stays.
            self.input_info = {**self.input_info, **self.final_info()}
        return operation, is_last

    def restart_failed(self) -> list[Job]:
        """The failed jobs, which are about to run again."""
        self.reruns += 1
        failed = [job for job in self.jobs if self._operations[job.output_op_id].failureReason is not None]
        for job in failed:
            self._operations[job.output_op_id] = evolve(self._operations[job.output_op_id], endTime=None)
        return failed

    def info(self) -> BatchInfo:
        """The batch's current state for listeners."""
        return BatchInfo(
            self.time_ms, self.input_info, self.submission_ms, self._start_ms, self._end_ms, dict(self._operations)
        )


class JobScheduler:
    """Runs jobs; ``on_error`` gets the error of every failed job, ``on_give_up`` the reason to stop the program.

    With ``is_recoverable``, a later run can run failed batches again; without, only this run can.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        set_properties: JobProperties,
        post: Callable[[Event], None],
        on_error: Callable[[BaseException], None],
        on_give_up: Callable[[BaseException], None],
        *,
        is_recoverable: bool = False,
    ) -> None:
        self._clock = clock
        self._set_properties = set_properties
        self._post = post
        self._on_error = on_error
        self._on_give_up = on_give_up
        drops = settings.on_max_pending_batches == "drop-oldest"
        # With this many pending batches, a new batch drops the oldest batch that has not started; 0: never.
        self._drop_at = settings.max_pending_batches if drops else 0
        self._max_failed = settings.max_failed_batches
        self._on_failed_batch = settings.on_failed_batch
        self._is_recoverable = is_recoverable
        self.input_info = InputInfoTracker()
        # Events are calls: a job has started or completed, a batch was dropped.
        self._loop: EventLoop[Callable[[], None]] = EventLoop("JobScheduler", lambda call: call(), on_error)
        self._pool = [
            EngineThread(f"streaming-job-executor-{n}", self._run_jobs) for n in range(settings.concurrent_jobs)
        ]
        # The condition guards these attributes down to `_abandoned`.
        self._jobs: deque[tuple[JobSet, Job]] = deque()
        self._pending: dict[int, JobSet] = {}
        self._failed: set[int] = set()
        self._dropped: list[int] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._abandoned = False
        # Failed batches that this run runs again, one at a time.
        self._rerunnable: dict[int, JobSet] = {}
        self._backoff = Backoff(_FIRST_DELAY_MS, _LONGEST_DELAY_MS)
        self._consecutive_failures = 0
        self._last_error: BaseException | None = None
        #: Number of dropped batches; these do not count as failed.
        self.dropped_batches = 0
        self._on_batch_completed: Callable[[int], None] = lambda _time_ms: None

    def start(self, on_batch_completed: Callable[[int], None]) -> None:
        """Start the loop and the pool; ``on_batch_completed`` is called with a batch time in ms."""
        self._on_batch_completed = on_batch_completed
        self._loop.start()
        for thread in self._pool:
            thread.start()

    def submit(self, job_set: JobSet) -> None:
        """Queue a batch's jobs. A batch without jobs is complete at once and has no events."""
        if not job_set.jobs:
            log.info("no jobs in batch", batch_time=job_set.time_ms)
            self._on_batch_completed(job_set.time_ms)
            return
        with self._changed:
            dropped = self._drop_oldest()
            self._pending[job_set.time_ms] = job_set
        if dropped is not None:
            self._loop.post(partial(self._on_batch_dropped, dropped, self._clock.now_ms()))
        self._post(BatchSubmitted(job_set.info()))
        with self._changed:
            self._jobs.extend((job_set, job) for job in job_set.jobs)
            self._changed.notify_all()

    def _drop_oldest(self) -> JobSet | None:
        """Drop the oldest batch that has not started, if too many are pending. The caller holds the lock."""
        if not self._drop_at or len(self._pending) < self._drop_at:
            return None
        waiting = [job_set for job_set in self._pending.values() if not job_set.has_begun]
        if not waiting:
            return None
        oldest = min(waiting, key=lambda job_set: job_set.time_ms)
        del self._pending[oldest.time_ms]
        self._jobs = deque(item for item in self._jobs if item[0] is not oldest)
        self._dropped.append(oldest.time_ms)
        self.dropped_batches += 1
        return oldest

    @property
    def pending_batches(self) -> list[int]:
        """The times of batches that were submitted and are not complete, oldest first."""
        with self._changed:
            return sorted(self._pending)

    @property
    def failed_batches(self) -> list[int]:
        """The times of failed batches, which must run again, oldest first."""
        with self._changed:
            return sorted(self._failed)

    def unfinished(self) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
        """The pending, the dropped and the failed batches at one moment.

        Dropped ones are those before the next complete batch, which computes their part of windows and state.
        """
        with self._changed:
            return frozenset(self._pending), frozenset(self._dropped), frozenset(self._failed)

    def await_pending(self, deadline: float, on_progress: Callable[[int], object] = lambda _left: None) -> bool:
        """Wait until no batch is pending, a deadline (monotonic s) or ``abandon``; return whether none is pending.

        ``on_progress`` is called with the number of remaining batches whenever it has decreased.
        """
        reported = len(self.pending_batches)
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: len(self._pending) < reported or not self._pending or self._abandoned,  # noqa: B023
                    deadline - time.monotonic(),
                )
                left = len(self._pending)
                over = not left or self._abandoned or time.monotonic() >= deadline
            if left < reported:
                on_progress(left)
            if over:
                return not left
            reported = left

    def abandon(self) -> None:
        """End the waits for pending batches; batches that fail from now on are not complete."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def stop(self, timeout_s: float) -> None:
        """Start no further job, and wait for the running ones until the timeout."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        deadline = time.monotonic() + timeout_s
        for thread in self._pool:
            thread.finish(deadline - time.monotonic())
        # The events of the last jobs are still queued.
        self._loop.stop(max(deadline - time.monotonic(), _LAST_EVENTS_S), drain=True)

    # -- on the job threads --

    def _run_jobs(self) -> None:
        while (item := self._next_job()) is not None:
            self._run(*item)

    def _next_job(self) -> tuple[JobSet, Job] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._stopped)
            if self._stopped:
                return None
            job_set, job = self._jobs.popleft()
            job_set.has_begun = True
            return job_set, job

    def _run(self, job_set: JobSet, job: Job) -> None:
        self._loop.post(partial(self._on_job_started, job_set, job, self._clock.now_ms()))
        error: BaseException | None = None
        result: object = None
        try:
            with bound_fields(batch_time=job_set.time_ms, output_op_id=job.output_op_id):
                self._set_properties(job_set.time_ms, job.output_op_id)
                result = job.run()
        # An error of the program, SystemExit included, fails this job only: the pool's thread must survive.
        except BaseException as caught:
            error = caught.with_traceback(from_the_program(caught.__traceback__))
        ended_ms = self._clock.now_ms()
        # Not on the loop, because Spark may publish the failed executor late.
        reason = "" if error is None else failure.reason(error)
        self._loop.post(partial(self._on_job_completed, job_set, job, ended_ms, error, reason, result))

    # -- on the loop --

    def _on_job_started(self, job_set: JobSet, job: Job, time_ms: int) -> None:
        operation, is_first = job_set.start_job(job.output_op_id, time_ms)
        if is_first:
            self._post(BatchStarted(job_set.info()))
        self._post(OutputOperationStarted(operation))

    def _on_job_completed(
        self, job_set: JobSet, job: Job, time_ms: int, error: BaseException | None, reason: str, result: object
    ) -> None:
        whole = None if error is None else "".join(traceback.format_exception(error))
        metadata = result if isinstance(result, OutputMetadata) else {}
        operation, is_last = job_set.end_job(job.output_op_id, time_ms, whole, metadata)
        self._post(OutputOperationCompleted(operation))
        is_rerun = job_set.time_ms in self._rerunnable
        # The outputs of the program raise other errors.
        job_set.is_generated = job_set.is_generated and not isinstance(error, BatchFailedError)
        if error is not None:
            self._report_failure(job_set, job, error, reason, is_rerun=is_rerun)
        if is_last and is_rerun:
            self._end_rerun(job_set)
        elif is_last:
            self._complete(job_set)

    def _complete(self, job_set: JobSet) -> None:
        # A batch that failed after `abandon` is not complete: a recovered run generates it again. Decided here, because
        # a callback below may call `abandon` as a consequence of this batch.
        info = job_set.info()
        is_complete = not self._abandoned or bool(info.succeeded)
        # Only a recovered run can generate a job again.
        reruns = self._on_failed_batch == "retry" and not info.succeeded and job_set.is_generated
        awaits_rerun = not info.succeeded and (self._is_recoverable or (reruns and is_complete))
        info = evolve(info, awaits_rerun=awaits_rerun)
        try:
            log.info(
                "batch completed",
                batch_time=job_set.time_ms,
                records=info.numRecords,
                scheduling_delay_ms=info.schedulingDelay,
                processing_delay_ms=info.processingDelay,
                succeeded=info.succeeded,
                awaits_rerun=info.awaits_rerun,
            )
            self._post(BatchCompleted(info))
            self._count(info)
        # A failed callback does not keep the batch pending.
        finally:
            with self._changed:
                if is_complete:
                    del self._pending[job_set.time_ms]
                    if awaits_rerun:
                        self._failed.add(job_set.time_ms)
                    self._dropped = [time_ms for time_ms in self._dropped if time_ms > job_set.time_ms]
                self._changed.notify_all()
            if is_complete:
                self._on_batch_completed(job_set.time_ms)
                if reruns:
                    self._rerunnable[job_set.time_ms] = job_set
                    if len(self._rerunnable) == 1:
                        self._loop.post_later(self._backoff.next_ms(), self._rerun)

    def _rerun(self) -> None:
        """Queue the failed jobs of one batch: a sink that is down for long gets one attempt at a time."""
        job_set = min(self._rerunnable.values(), key=lambda job_set: (job_set.reruns, job_set.time_ms))
        jobs = job_set.restart_failed()
        with self._changed:
            self._jobs.extend((job_set, job) for job in jobs)
            self._changed.notify_all()

    def _end_rerun(self, job_set: JobSet) -> None:
        if not job_set.info().succeeded:
            self._loop.post_later(self._backoff.next_ms(), self._rerun)
            return
        log.info("failed batch succeeded", batch_time=job_set.time_ms, reruns=job_set.reruns)
        self._backoff.reset()
        del self._rerunnable[job_set.time_ms]
        with self._changed:
            self._failed.remove(job_set.time_ms)
        self._on_batch_completed(job_set.time_ms)
        if self._rerunnable:
            self._loop.post(self._rerun)

    def _count(self, info: BatchInfo) -> None:
        if info.succeeded:
            self._consecutive_failures = 0
            return
        if self._on_failed_batch == "stop" and self._last_error is not None:
            self._on_give_up(self._last_error)
            return
        self._consecutive_failures += 1
        if self._consecutive_failures == self._max_failed:
            error = BatchFailedError(
                f"{self._max_failed} consecutive batches have failed (spark.penstock.maxFailedBatches), the last one "
                f"at {iso_time(info.batchTime)}: {self._last_error}"
            )
            error.__cause__ = self._last_error
            self._on_give_up(error)

    def _on_batch_dropped(self, job_set: JobSet, time_ms: int) -> None:
        reason = (
            f"batch {iso_time(job_set.time_ms)} was dropped before it started: {self._drop_at} batches were pending "
            "(spark.penstock.maxPendingBatches, drop-oldest)"
        )
        for job in job_set.jobs:
            operation, _is_last = job_set.end_job(job.output_op_id, time_ms, reason, {})
            self._post(OutputOperationCompleted(operation))
        info = job_set.info()
        log.warning(
            "batch dropped: too many pending batches",
            batch_time=job_set.time_ms,
            records=info.numRecords,
            dropped_batches=self.dropped_batches,
            key=conf.key("max_pending_batches"),
        )
        self._post(BatchCompleted(info))

    def _report_failure(self, job_set: JobSet, job: Job, error: BaseException, reason: str, *, is_rerun: bool) -> None:
        original = error.__cause__ if isinstance(error, BatchFailedError) and error.__cause__ else error
        log.error(
            "job failed",
            batch_time=job_set.time_ms,
            output_op_id=job.output_op_id,
            operation=job.call_site.short,
            reason=reason,
            raised_at=failure.place(original) or None,
        )
        # The batch's first failure has been reported.
        if not is_rerun:
            self._last_error = _as_batch_failed(job_set, job, error, reason)
            self._on_error(self._last_error)


def _as_batch_failed(job_set: JobSet, job: Job, error: BaseException, reason: str) -> BatchFailedError:
    """A job's error with batch and output operation; a BatchFailedError names them already."""
    if isinstance(error, BatchFailedError):
        return error
    advice = _PICKLING_ADVICE if isinstance(error, pickle.PicklingError) else ""
    failed = output_failed(job, job_set.time_ms, reason + advice, error)
    failed.__cause__ = error
    return failed
