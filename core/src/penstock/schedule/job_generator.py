"""``JobGenerator``: a batch at every tick.

Owns the timer, the ticks that have to wait, and the generator's loop, on which everything happens that concerns one
batch as a whole, one thing at a time: received blocks are allocated, the graph makes the jobs, finished batches are
cleaned up. Never runs a job, never waits on the loop: what must wait is a tick that is not yet made.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from attrs import evolve, frozen

from penstock.backoff import Backoff
from penstock.clock import Clock
from penstock.errors import BatchFailedError
from penstock.event_loop import EventLoop
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.output_job import OutputJob
from penstock.log import get_logger
from penstock.recurring_timer import RecurringTimer
from penstock.schedule.generator_report import GeneratorReport
from penstock.schedule.input_info_tracker import InputInfoTracker
from penstock.schedule.job_scheduler import JobScheduler
from penstock.schedule.job_set import JobSet
from penstock.seldom import Seldom
from penstock.spark import failure
from penstock.threads import EngineThread

log = get_logger("job_generator")

# The waits between tries of an allocation: from this part of a batch interval, doubling, up to this.
_FIRST_WAIT, _LONGEST_WAIT_MS = 1 / 20, 1000.0


class Intake(Protocol):
    """Where received blocks come from."""

    def allocate_blocks_to_batch(self, batch_time_ms: int) -> None:
        """Give all blocks that belong to no batch yet to this one."""
        ...

    def clean_up(self, before_ms: int, *, delete: bool) -> None:
        """Forget the batches strictly older than a time and, if asked to, delete their blocks."""
        ...

    def processed(self, until_ms: int) -> None:
        """Note that the batches up to a time are complete."""
        ...

    def pause(self, paused: bool) -> None:
        """Have the receivers take nothing more, or go on."""
        ...


@frozen
class _Tick:
    time_ms: int


@frozen
class _BatchCompleted:
    time_ms: int


@frozen
class _TryAgain:
    """To allocate the blocks of the oldest tick that waits."""


class JobGenerator:
    """Generate batches.

    Args:
        clock: of the engine.
        graph: makes the jobs.
        scheduler: runs them.
        intake: where received blocks come from.
        input_info: what the streams report while the graph makes the jobs.
        unpersist: free what old batches hold.
        on_error: is told what goes wrong outside a batch.
        skip_late: of the ticks that were missed, make only the last.
        pause_at: while so many batches are pending, make no further one and pause the receivers; 0: never.
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
        skip_late: bool = False,
        pause_at: int = 0,
    ) -> None:
        self._clock, self._graph, self._scheduler, self._intake = clock, graph, scheduler, intake
        self._input_info, self._unpersist, self._pause_at = input_info, unpersist, pause_at
        self._loop: EventLoop[_Tick | _BatchCompleted | _TryAgain] = EventLoop("JobGenerator", self._handle, on_error)
        self._timer = RecurringTimer(
            clock,
            graph.batch_interval_ms,
            lambda tick: self._loop.post(_Tick(tick)),
            "JobGenerator",
            on_error,
            skip_missed=skip_late,
            on_missed=self._on_missed,
        )
        self._skip_late = skip_late
        # Ticks whose batches are not made yet, oldest first.
        self._waiting: deque[int] = deque()
        self._backoff = Backoff(graph.batch_interval_ms * _FIRST_WAIT, _LONGEST_WAIT_MS)
        self._backing_off = self._paused = self._pause_was_told = False
        self._missed_told, self._slow_told, self._pause_told = Seldom(clock), Seldom(clock), Seldom(clock)
        self._completed_ms = -1
        self._report = GeneratorReport()
        self._generated_ms = -1
        self._generated = threading.Condition()
        scheduler.on_batch_completion = lambda time_ms: self._loop.post(_BatchCompleted(time_ms))

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
                all_made = self._generated_ms >= last_ms
            done = self._scheduler.await_pending(deadline) and all_made
        self._graph.stop()
        self._loop.stop(5.0)
        return done

    def report(self) -> GeneratorReport:
        """How the making of batches went so far."""
        return evolve(
            self._report,
            late_ticks=self._timer.late,
            skipped_ticks=self._timer.skipped,
            dropped_batches=self._scheduler.dropped_batches,
            failed_batches=self._scheduler.failed_batches,
        )

    def _on_missed(self, count: int) -> None:
        """On the timer's thread."""
        if self._missed_told.is_due():
            log.warning("ticks missed", count=count, skipped=self._skip_late)

    # -- on the loop --

    def _handle(self, event: _Tick | _BatchCompleted | _TryAgain) -> None:
        if isinstance(event, _Tick):
            self._waiting.append(event.time_ms)
        elif isinstance(event, _TryAgain):
            self._backing_off = False
        try:
            if isinstance(event, _BatchCompleted):
                self._clear_metadata(event.time_ms)
        # A clean-up that fails holds up no batch.
        finally:
            self._make_waiting()

    def _make_waiting(self) -> None:
        while self._waiting and self._has_room() and not self._backing_off:
            error = self._allocate(self._waiting[0])
            if not self._backing_off:
                self._make(self._waiting.popleft(), error)
        self._pause(bool(self._waiting) and not self._has_room())

    def _has_room(self) -> bool:
        return not self._pause_at or len(self._scheduler.pending_batches) < self._pause_at

    def _pause(self, paused: bool) -> None:
        if paused == self._paused:
            return
        self._paused = paused
        pending = len(self._scheduler.pending_batches)
        if paused:
            self._pause_was_told = self._pause_told.is_due()
        tell = log.warning if self._pause_was_told else log.info
        tell("receivers pause: too many batches are pending" if paused else "receivers go on", pending=pending)
        self._intake.pause(paused)

    def _allocate(self, time_ms: int) -> BatchFailedError | None:
        """Give a batch its blocks. Without success: the tick waits and is tried again, or, at last, the error."""
        try:
            with self._timed("allocation"):
                self._intake.allocate_blocks_to_batch(time_ms)
        except BaseException as error:
            tries = self._backoff.failures + 1
            if tries <= self._graph.generation_retries:
                log.warning("blocks not allocated, trying again", batch_time=time_ms, reason=failure.reason(error))
                self._backing_off = True
                self._try_again_in(self._backoff.next_ms())
                return None
            self._backoff.reset()
            # The blocks belong to no batch yet: they come with the next one.
            return _failed(time_ms, error, f"its blocks could not be allocated, tries: {tries}")
        self._backoff.reset()
        return None

    def _try_again_in(self, delay_ms: float) -> None:
        def wait() -> None:
            # Of real time, as an output's further tries.
            if not self._graph.stopping.wait(delay_ms / 1000):
                self._loop.post(_TryAgain())

        EngineThread("JobGenerator back-off", wait).start()

    def _make(self, time_ms: int, error: BatchFailedError | None) -> None:
        try:
            job_set = self._job_set(time_ms, error)
            with self._timed("submission"):
                self._scheduler.submit(job_set)
        finally:
            with self._generated:
                self._generated_ms = time_ms
                self._generated.notify_all()

    def _job_set(self, time_ms: int, error: BatchFailedError | None) -> JobSet:
        jobs: list[OutputJob] = []
        if error is None:
            try:
                with self._timed("generation") as took_ms:
                    jobs = self._graph.generate_jobs(time_ms)
                self._tell_if_slow(time_ms, took_ms())
            # The program's functions run here too, and may raise what asks a thread to end: this one must live.
            except BaseException as caught:
                error = _failed(time_ms, caught, "its jobs could not be made")
        if error is not None:
            log.error("batch not generated", batch_time=time_ms, reason=str(error))
            jobs = self._graph.failed_jobs(error)
        info, final_info = self._input_info.info(time_ms), partial(self._input_info.final_info, time_ms)
        return JobSet(time_ms, jobs, info, self._clock.now_ms(), final_info)

    def _tell_if_slow(self, time_ms: int, took_ms: float) -> None:
        if took_ms > self._graph.batch_interval_ms and self._slow_told.is_due():
            slowest_ms, call_site = self._graph.slowest
            log.warning(
                "generating a batch took longer than the batch interval",
                batch_time=time_ms,
                took_ms=round(took_ms),
                slowest=call_site,
                slowest_ms=round(slowest_ms),
            )

    def _clear_metadata(self, time_ms: int) -> None:
        with self._timed("clean_up"):
            # A batch may be complete before an older one, which still needs its blocks and its parents' RDDs.
            self._completed_ms = max(self._completed_ms, time_ms)
            needed_ms = self._scheduler.oldest_needed
            oldest_ms = done_ms = self._completed_ms
            if needed_ms is not None:
                oldest_ms, done_ms = min(oldest_ms, needed_ms), min(done_ms, needed_ms - self._graph.batch_interval_ms)
            before_ms = oldest_ms - self._graph.max_input_remember_ms
            self._intake.processed(done_ms)
            self._graph.clear_metadata(done_ms, unpersist=self._unpersist)
            self._intake.clean_up(before_ms, delete=self._unpersist)
            self._input_info.clean_up(before_ms)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[Callable[[], float]]:
        before_ms = self._clock.monotonic_ms()
        took_ms = 0.0
        try:
            yield lambda: took_ms
        finally:
            took_ms = self._clock.monotonic_ms() - before_ms
            self._report = evolve(self._report, **{phase: getattr(self._report, phase).plus(took_ms)})


def _failed(time_ms: int, error: BaseException, what: str) -> BatchFailedError:
    failed = BatchFailedError(f"batch {time_ms} ms could not be generated, {what}: {failure.reason(error)}")
    failed.__cause__ = error
    return failed
