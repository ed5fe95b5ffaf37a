"""``JobGenerator``: a batch at every tick.

Owns the timer and the generator's loop, on which everything happens that concerns one batch as a whole, one thing at a
time: received blocks are allocated, the graph makes the jobs, finished batches are cleaned up. Never runs a job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from attrs import frozen

from penstock.clock import Clock
from penstock.errors import BatchFailedError
from penstock.event_loop import EventLoop
from penstock.graph.dstream_graph import DStreamGraph
from penstock.log import get_logger
from penstock.recurring_timer import RecurringTimer
from penstock.schedule.input_info_tracker import InputInfoTracker
from penstock.schedule.job_scheduler import JobScheduler
from penstock.schedule.job_set import JobSet
from penstock.spark import failure

log = get_logger("job_generator")


class Intake(Protocol):
    """Where received blocks come from."""

    def allocate_blocks_to_batch(self, batch_time_ms: int) -> None:
        """Give all blocks that belong to no batch yet to this one."""
        ...

    def clean_up(self, before_ms: int, *, delete: bool) -> None:
        """Forget the batches strictly older than a time and, if asked to, delete their blocks."""
        ...


@frozen
class _GenerateJobs:
    time_ms: int


@frozen
class _ClearMetadata:
    time_ms: int


class JobGenerator:
    """Generate batches.

    Args:
        clock: of the engine.
        graph: makes the jobs.
        scheduler: runs them.
        intake: where received blocks come from.
        input_info: what the streams report while the graph makes the jobs.
        unpersist: free what old batches hold.
        on_error: is told what goes wrong outside a job.
    """

    def __init__(
        self,
        clock: Clock,
        graph: DStreamGraph,
        scheduler: JobScheduler,
        intake: Intake,
        input_info: InputInfoTracker,
        *,
        unpersist: bool,
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._clock, self._graph, self._scheduler, self._intake = clock, graph, scheduler, intake
        self._input_info, self._unpersist, self._on_error = input_info, unpersist, on_error
        self._loop: EventLoop[_GenerateJobs | _ClearMetadata] = EventLoop("JobGenerator", self._handle, on_error)
        self._timer = RecurringTimer(
            clock, graph.batch_interval_ms, lambda tick: self._loop.post(_GenerateJobs(tick)), "JobGenerator", on_error
        )
        self._generated_ms = -1
        self._generated = threading.Condition()
        scheduler.on_batch_completion = lambda time_ms: self._loop.post(_ClearMetadata(time_ms))

    def start(self) -> None:
        """Fix zero time on the wall clock's grid and begin to tick; the first batch ends one interval later at most."""
        start_ms = self._timer.start_time_ms()
        self._graph.start(start_ms - self._graph.batch_interval_ms)
        self._loop.start()
        self._timer.start(start_ms)

    def stop(self, deadline: float | None) -> bool:
        """End the ticking.

        Args:
            deadline: monotonic seconds until which batches may still be generated and run, so that all that was
                received is processed; ``None`` to stop at once.

        Returns:
            Whether every batch was run to its end.
        """
        if deadline is None:
            self._timer.stop(interrupt=True)
            done = not self._scheduler.pending_batches
        else:
            last_ms = self._timer.stop(interrupt=False, timeout_s=max(deadline - time.monotonic(), 0))
            with self._generated:
                self._generated.wait_for(lambda: self._generated_ms >= last_ms, max(deadline - time.monotonic(), 0))
            done = self._scheduler.await_pending(deadline)
        self._graph.stop()
        self._loop.stop(5.0)
        return done

    # -- on the loop --

    def _handle(self, event: _GenerateJobs | _ClearMetadata) -> None:
        if isinstance(event, _GenerateJobs):
            self._generate_jobs(event.time_ms)
        else:
            self._clear_metadata(event.time_ms)

    def _generate_jobs(self, time_ms: int) -> None:
        try:
            self._intake.allocate_blocks_to_batch(time_ms)
            jobs = self._graph.generate_jobs(time_ms)
            info, counts = self._input_info.info(time_ms), self._input_info.counts(time_ms)
            self._scheduler.submit(JobSet(time_ms, jobs, info, self._clock.now_ms(), counts))
        # The program's functions run here too, and may raise what asks a thread to end: this one must live.
        except BaseException as error:
            log.error("batch not generated", batch_time=time_ms, reason=failure.reason(error))
            failed = BatchFailedError(f"batch {time_ms} ms could not be generated: {failure.reason(error)}")
            failed.__cause__ = error
            self._on_error(failed)
        finally:
            with self._generated:
                self._generated_ms = time_ms
                self._generated.notify_all()

    def _clear_metadata(self, time_ms: int) -> None:
        self._graph.clear_metadata(time_ms, unpersist=self._unpersist)
        # A batch may be complete before an older one, which still needs its blocks.
        oldest_ms = min([time_ms, *self._scheduler.pending_batches[:1]])
        before_ms = oldest_ms - self._graph.max_input_remember_ms
        self._intake.clean_up(before_ms, delete=self._unpersist)
        self._input_info.clean_up(before_ms)
