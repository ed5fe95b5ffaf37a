"""``JobScheduler``: runs the jobs of batches and tells what became of them.

Owns the pool of job threads, the job sets that are not complete, and the events about both. Never generates a batch. A
job runs on a thread of the pool, first in, first out; what follows from its start and end runs on the scheduler's loop.
A batch with failed jobs is complete when they have all ended: the failure is in its events and in ``on_error``. A batch
that is given up is complete too, failed, without having begun.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable

from attrs import frozen

from penstock.errors import BatchFailedError
from penstock.graph.job import Job
from penstock.listen.events import (
    BatchCompleted,
    BatchInfo,
    BatchStarted,
    BatchSubmitted,
    Event,
    OutputOperationCompleted,
    OutputOperationStarted,
)
from penstock.runtime.clock import Clock
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread
from penstock.schedule.job_set import JobSet
from penstock.spark import failure

log = get_logger("job_scheduler")

#: Puts Spark's local properties of a batch time and output operation in force on the calling thread.
JobProperties = Callable[[int, int], object]


@frozen
class _JobStarted:
    job_set: JobSet
    job: Job
    time_ms: int


@frozen
class _JobCompleted:
    job_set: JobSet
    job: Job
    time_ms: int
    error: BaseException | None


@frozen
class _BatchDropped:
    job_set: JobSet
    time_ms: int


class JobScheduler:
    """Run jobs.

    Args:
        clock: of the engine.
        concurrent_jobs: threads of the pool.
        properties: what a job runs under.
        post: gives an event to the listeners.
        on_error: is told of every failed job.
        drop_at: while so many batches are pending, one that has not begun is given up for each that comes; 0: never.
        max_failed: after so many failed batches in a row ``on_give_up`` is told; 0: never.
        on_give_up: is told why the program should not go on.
    """

    def __init__(
        self,
        clock: Clock,
        concurrent_jobs: int,
        properties: JobProperties,
        post: Callable[[Event], None],
        on_error: Callable[[BaseException], None],
        *,
        drop_at: int = 0,
        max_failed: int = 0,
        on_give_up: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        self._clock, self._properties, self._post, self._on_error = clock, properties, post, on_error
        self._drop_at, self._max_failed, self._on_give_up = drop_at, max_failed, on_give_up
        self._loop: EventLoop[_JobStarted | _JobCompleted | _BatchDropped] = EventLoop(
            "JobScheduler", self._handle, on_error
        )
        self._pool = [EngineThread(f"streaming-job-executor-{n}", self._run_jobs) for n in range(concurrent_jobs)]
        # All of these under the lock of the condition.
        self._jobs: deque[tuple[JobSet, Job]] = deque()
        self._pending: dict[int, JobSet] = {}
        self._dropped: list[int] = []
        self._changed = threading.Condition()
        self._stopped = self._abandoned = False
        self._failed_in_a_row = 0
        self._last_error: BaseException | None = None
        #: How many batches were given up, and how many failed.
        self.dropped_batches = self.failed_batches = 0
        #: Told the time of each batch that is complete; set by whoever generates them.
        self.on_batch_completion: Callable[[int], None] = lambda _time_ms: None

    def start(self) -> None:
        """Start the loop and the pool."""
        self._loop.start()
        for thread in self._pool:
            thread.start()

    def submit(self, job_set: JobSet) -> None:
        """Queue a batch's jobs. A batch without jobs is complete at once and has no events."""
        if not job_set.jobs:
            log.info("no jobs in batch", batch_time=job_set.time_ms)
            self.on_batch_completion(job_set.time_ms)
            return
        with self._changed:
            dropped = self._drop_oldest()
            self._pending[job_set.time_ms] = job_set
        if dropped is not None:
            self._loop.post(_BatchDropped(dropped, self._clock.now_ms()))
        self._post(BatchSubmitted(job_set.info()))
        with self._changed:
            self._jobs.extend((job_set, job) for job in job_set.jobs)
            self._changed.notify_all()

    def _drop_oldest(self) -> JobSet | None:
        """Take the oldest batch that has not begun out, if there are too many. The caller holds the lock."""
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
        """The times of batches submitted and not complete, oldest first."""
        with self._changed:
            return sorted(self._pending)

    @property
    def oldest_needed(self) -> int | None:
        """The oldest batch whose data may be read still.

        A pending one; or one that was given up: what a window or a state has of it is computed by the next batch that
        runs.
        """
        with self._changed:
            return min([*self._pending, *self._dropped], default=None)

    def await_pending(self, deadline: float, tell: Callable[[int], object] = lambda _left: None) -> bool:
        """Wait until no batch is pending, the deadline (monotonic seconds), or ``abandon``; say whether none is.

        Args:
            deadline: of the wait.
            tell: is told how many are left, whenever there are fewer.
        """
        told = len(self.pending_batches)
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: len(self._pending) < told or not self._pending or self._abandoned,  # noqa: B023
                    max(deadline - time.monotonic(), 0),
                )
                left = len(self._pending)
                over = not left or self._abandoned or time.monotonic() >= deadline
            if left < told:
                tell(left)
            if over:
                return not left
            told = left

    def abandon(self) -> None:
        """Let nobody wait for what is pending any longer; what fails from now on is not complete."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def stop(self, timeout_s: float) -> None:
        """Start no further job; wait for those that run until the time-out."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        deadline = time.monotonic() + timeout_s
        for thread in self._pool:
            thread.finish(max(deadline - time.monotonic(), 0))
        # The ends of the last jobs are events still to be told.
        self._loop.stop(max(deadline - time.monotonic(), 1), drain=True)

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
        self._loop.post(_JobStarted(job_set, job, self._clock.now_ms()))
        error: BaseException | None = None
        try:
            self._properties(job_set.time_ms, job.output_op_id)
            job.run()
        # Whatever the program raises, exit requests included, fails this job: the pool must live.
        except BaseException as caught:
            error = caught
        self._loop.post(_JobCompleted(job_set, job, self._clock.now_ms(), error))

    # -- on the loop --

    def _handle(self, event: _JobStarted | _JobCompleted | _BatchDropped) -> None:
        if isinstance(event, _JobStarted):
            self._on_job_started(event)
        elif isinstance(event, _JobCompleted):
            self._on_job_completed(event)
        else:
            self._on_batch_dropped(event)

    def _on_job_started(self, event: _JobStarted) -> None:
        operation, first = event.job_set.start_job(event.job.output_op_id, event.time_ms)
        if first:
            self._post(BatchStarted(event.job_set.info()))
        self._post(OutputOperationStarted(operation))

    def _on_job_completed(self, event: _JobCompleted) -> None:
        job_set, error = event.job_set, event.error
        reason = None if error is None else "".join(traceback.format_exception(error))
        operation, last = job_set.end_job(event.job.output_op_id, event.time_ms, reason)
        self._post(OutputOperationCompleted(operation))
        if error is not None:
            self._report(job_set, event.job, error)
        if last:
            self._complete(job_set)

    def _complete(self, job_set: JobSet) -> None:
        # What failed because all was broken off is not: a run that goes on makes it again. What is told of it below may
        # break all off, and that is behind it.
        is_over = not self._abandoned or bool(job_set.info().succeeded)
        try:
            info = job_set.info()
            log.info(
                "batch complete",
                batch_time=job_set.time_ms,
                records=info.numRecords,
                processing_delay=info.processingDelay,
                succeeded=info.succeeded,
            )
            self._post(BatchCompleted(info))
            self._count(info)
        # Whatever goes wrong in the telling: it is over.
        finally:
            with self._changed:
                if is_over:
                    del self._pending[job_set.time_ms]
                    self._dropped = [time_ms for time_ms in self._dropped if time_ms > job_set.time_ms]
                self._changed.notify_all()
            if is_over:
                self.on_batch_completion(job_set.time_ms)

    def _count(self, info: BatchInfo) -> None:
        if info.succeeded:
            self._failed_in_a_row = 0
            return
        self.failed_batches += 1
        self._failed_in_a_row += 1
        if self._failed_in_a_row == self._max_failed:
            error = BatchFailedError(
                f"{self._max_failed} batches have failed in a row (spark.penstock.maxFailedBatches), the last at "
                f"{info.batchTime} ms: {self._last_error}"
            )
            error.__cause__ = self._last_error
            self._on_give_up(error)

    def _on_batch_dropped(self, event: _BatchDropped) -> None:
        job_set = event.job_set
        reason = (
            f"batch {job_set.time_ms} ms was given up before it began: {self._drop_at} batches were pending "
            "(spark.penstock.maxPendingBatches, drop-oldest)"
        )
        for job in job_set.jobs:
            operation, _last = job_set.end_job(job.output_op_id, event.time_ms, reason)
            self._post(OutputOperationCompleted(operation))
        info = job_set.info()
        log.warning(
            "batch dropped: too many are pending",
            batch_time=job_set.time_ms,
            records=info.numRecords,
            dropped_so_far=self.dropped_batches,
        )
        self._post(BatchCompleted(info))

    def _report(self, job_set: JobSet, job: Job, error: BaseException) -> None:
        log.error("job failed", batch_time=job_set.time_ms, operation=job.call_site.short, reason=failure.reason(error))
        self._last_error = failed = _as_batch_failed(job_set, job, error)
        self._on_error(failed)


def _as_batch_failed(job_set: JobSet, job: Job, error: BaseException) -> BatchFailedError:
    """An error that says where it happened; one that does already stays as it is."""
    if isinstance(error, BatchFailedError):
        return error
    where = f"output operation {job.output_op_id} ({job.call_site.short}) of batch {job_set.time_ms} ms"
    inner = failure.python_traceback(error)
    failed = BatchFailedError(f"{where} failed: {failure.reason(error)}" + (f"\n{inner}" if inner else ""))
    failed.__cause__ = error
    return failed
