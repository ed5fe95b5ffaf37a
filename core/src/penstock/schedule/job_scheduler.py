"""``JobScheduler``: runs the jobs of batches and tells what became of them.

Owns the pool of job threads, the job sets that are not complete, and the events about both. Never generates a batch. A
job runs on a thread of the pool, first in, first out; what follows from its start and end runs on the scheduler's loop.
A batch with failed jobs is complete when they have all ended: the failure is in its events and in ``on_error``.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager

from attrs import frozen

from penstock.clock import Clock
from penstock.errors import BatchFailedError
from penstock.event_loop import EventLoop
from penstock.graph.output_stream import OutputJob
from penstock.listen.events import (
    BatchCompleted,
    BatchStarted,
    BatchSubmitted,
    Event,
    OutputOperationCompleted,
    OutputOperationStarted,
)
from penstock.log import get_logger
from penstock.schedule.job_set import JobSet
from penstock.spark import failure
from penstock.threads import EngineThread

log = get_logger("job_scheduler")

#: Puts Spark's local properties of a batch time and output operation in force on the calling thread.
JobProperties = Callable[[int, int], AbstractContextManager[None]]


@frozen
class _JobStarted:
    job_set: JobSet
    job: OutputJob
    time_ms: int


@frozen
class _JobCompleted:
    job_set: JobSet
    job: OutputJob
    time_ms: int
    error: BaseException | None


class JobScheduler:
    """Run jobs.

    Args:
        clock: of the engine.
        concurrent_jobs: threads of the pool.
        properties: what a job runs under.
        post: gives an event to the listeners.
        on_error: is told of every failed job.
    """

    def __init__(
        self,
        clock: Clock,
        concurrent_jobs: int,
        properties: JobProperties,
        post: Callable[[Event], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._clock, self._properties, self._post, self._on_error = clock, properties, post, on_error
        self._loop: EventLoop[_JobStarted | _JobCompleted] = EventLoop("JobScheduler", self._handle, on_error)
        # None ends one thread of the pool.
        self._jobs: queue.SimpleQueue[tuple[JobSet, OutputJob] | None] = queue.SimpleQueue()
        self._pool = [EngineThread(f"streaming-job-executor-{n}", self._run_jobs) for n in range(concurrent_jobs)]
        self._pending: dict[int, JobSet] = {}
        self._changed = threading.Condition()
        self._stopped = False
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
            self._pending[job_set.time_ms] = job_set
        self._post(BatchSubmitted(job_set.info()))
        for job in job_set.jobs:
            self._jobs.put((job_set, job))

    @property
    def pending_batches(self) -> list[int]:
        """The times of batches submitted and not complete, oldest first."""
        with self._changed:
            return sorted(self._pending)

    def await_pending(self, deadline: float) -> bool:
        """Wait until no batch is pending, or the deadline (monotonic seconds); say which."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, max(deadline - time.monotonic(), 0))

    def stop(self, timeout_s: float) -> None:
        """Start no further job; wait for those that run until the time-out."""
        self._stopped = True
        for _ in self._pool:
            self._jobs.put(None)
        deadline = time.monotonic() + timeout_s
        for thread in self._pool:
            thread.finish(max(deadline - time.monotonic(), 0))
        # The ends of the last jobs are events still to be told.
        self._loop.stop(max(deadline - time.monotonic(), 1), drain=True)

    # -- on the job threads --

    def _run_jobs(self) -> None:
        while (item := self._jobs.get()) is not None and not self._stopped:
            self._run(*item)

    def _run(self, job_set: JobSet, job: OutputJob) -> None:
        self._loop.post(_JobStarted(job_set, job, self._clock.now_ms()))
        error: BaseException | None = None
        try:
            with self._properties(job_set.time_ms, job.output_op_id):
                job.run()
        # Whatever the program raises, exit requests included, fails this job: the pool must live.
        except BaseException as caught:
            error = caught
        self._loop.post(_JobCompleted(job_set, job, self._clock.now_ms(), error))

    # -- on the loop --

    def _handle(self, event: _JobStarted | _JobCompleted) -> None:
        if isinstance(event, _JobStarted):
            self._on_job_started(event)
        else:
            self._on_job_completed(event)

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
            info = job_set.info()
            log.info(
                "batch complete",
                batch_time=job_set.time_ms,
                records=info.numRecords,
                processing_delay=info.processingDelay,
            )
            self._post(BatchCompleted(info))
            with self._changed:
                del self._pending[job_set.time_ms]
                self._changed.notify_all()
            self.on_batch_completion(job_set.time_ms)

    def _report(self, job_set: JobSet, job: OutputJob, error: BaseException) -> None:
        where = f"output operation {job.output_op_id} ({job.call_site.short}) of batch {job_set.time_ms} ms"
        log.error("job failed", batch_time=job_set.time_ms, operation=job.call_site.short, reason=failure.reason(error))
        inner = failure.python_traceback(error)
        failed = BatchFailedError(f"{where} failed: {failure.reason(error)}" + (f"\n{inner}" if inner else ""))
        failed.__cause__ = error
        self._on_error(failed)
