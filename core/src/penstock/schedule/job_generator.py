"""``JobGenerator``: a batch at every tick.

Owns the timer, the ticks that have to wait, and the generator's loop, on which everything happens that concerns one
batch as a whole, one thing at a time: received blocks are allocated, the graph makes the jobs, finished batches are
cleaned up. Never runs a job, never waits on the loop: what must wait is a tick that is not yet made.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from attrs import evolve, frozen

from penstock.errors import BatchFailedError
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.job import Job
from penstock.runtime.clock import Clock
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.log import get_logger
from penstock.runtime.log_throttle import Seldom
from penstock.runtime.recurring_timer import RecurringTimer
from penstock.runtime.retry import Backoff
from penstock.runtime.threads import EngineThread
from penstock.schedule.generator_report import GeneratorReport
from penstock.schedule.input_info_tracker import InputInfoTracker
from penstock.schedule.job_scheduler import JobScheduler
from penstock.schedule.job_set import JobSet
from penstock.schedule.recovered_batches import RecoveredBatches
from penstock.spark import failure

log = get_logger("job_generator")

# The waits between tries of an allocation: from this part of a batch interval, doubling, up to this.
_FIRST_WAIT, _LONGEST_WAIT_MS = 1 / 20, 1000.0
# What a stop gives the loop for what it is at.
_LAST_EVENT_S = 5.0


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

    @property
    def has_unallocated_blocks(self) -> bool:
        """Whether some block belongs to no batch yet."""
        ...

    @property
    def last_allocated_ms(self) -> int:
        """The last batch that was given blocks; -1 for none."""
        ...


class Checkpoints(Protocol):
    """Where what a later run needs is written."""

    def save(self, last_time_ms: int, pending: Sequence[int], needed_ms: int) -> None:
        """Have a checkpoint written; returns at once.

        Args:
            last_time_ms: the youngest batch.
            pending: batches that are not complete.
            needed_ms: blocks of batches strictly older than that are not needed any more.
        """
        ...

    def begin(self, zero_time_ms: int) -> None:
        """Write, before the first batch can be made, since when there are batches."""
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


@frozen
class _Cleanable:
    before_ms: int


_Event = _Tick | _BatchCompleted | _TryAgain | _Cleanable


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
        checkpoints: are written at each batch's generation and completion; ``None`` for none.
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
        checkpoints: Checkpoints | None = None,
        keeps_blocks: bool = False,
    ) -> None:
        self._clock, self._graph, self._scheduler, self._intake = clock, graph, scheduler, intake
        self._input_info, self._unpersist, self._pause_at = input_info, unpersist, pause_at
        self._checkpoints = checkpoints
        self._keeps_blocks = checkpoints is not None and keeps_blocks
        self._loop: EventLoop[_Event] = EventLoop("JobGenerator", self._handle, on_error)
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
        # Ticks whose batches are not made yet, oldest first; with the one that is being made. Changed on the loop.
        self._waiting: deque[int] = deque()
        self._backoff = Backoff(graph.batch_interval_ms * _FIRST_WAIT, _LONGEST_WAIT_MS)
        self._backing_off = self._paused = self._pause_was_told = False
        self._missed_told, self._slow_told, self._pause_told = Seldom(clock), Seldom(clock), Seldom(clock)
        self._completed_ms = -1
        # Of a run that goes on: its batches up to here are late, and those of them may be left out.
        self._late_ms, self._late_max_pending = -1, 0
        self._skippable: set[int] = set()
        self._report = GeneratorReport()
        # Zero time before the first batch; -1 until there may be one.
        self._generated_ms = -1
        self._generated = threading.Condition()
        self._abandoned = False
        scheduler.on_batch_completion = lambda time_ms: self._loop.post(_BatchCompleted(time_ms))

    def start(self, resume: RecoveredBatches | None = None) -> None:
        """Fix zero time on the wall clock's grid and begin to tick; the first batch ends one interval later at most.

        With ``resume``, zero time is that of an earlier run, and the batches it did not complete come first, with those
        of the time in between.
        """
        start_ms = self._timer.start_time_ms()
        if resume is None:
            zero_time_ms = start_ms - self._graph.batch_interval_ms
            self._graph.start(zero_time_ms)
            if self._checkpoints is not None:
                self._checkpoints.begin(zero_time_ms)
            self._generated_ms = zero_time_ms
        else:
            start_ms = self._resume(resume, start_ms)
        self._loop.start()
        # For what waits already.
        self._loop.post(_TryAgain())
        self._timer.start(start_ms)

    def _resume(self, resume: RecoveredBatches, start_ms: int) -> int:
        interval_ms = self._graph.batch_interval_ms
        if start_ms <= resume.last_time_ms:
            log.warning(
                "the clock is behind the last batch: the next one comes when it has caught up",
                last_batch=resume.last_time_ms,
                behind_s=(resume.last_time_ms - start_ms) / 1000,
            )
            start_ms = resume.last_time_ms + interval_ms
        self._graph.start(resume.zero_time_ms)
        due = resume.due(start_ms, interval_ms)
        # What is carried on comes by way of the batches that are complete, and not in the tables that are there.
        if resume.state_ms is not None:
            self._graph.advance_state(range(resume.state_ms + interval_ms, due[0] if due else start_ms, interval_ms))
        log.info("going on", batches_due=len(due), of_them_pending=len(resume.pending), first_tick=start_ms)
        self._late_ms, self._late_max_pending = start_ms - interval_ms, resume.max_pending
        if resume.skips_empty and not self._graph.needs_every_batch:
            # What has blocks already is not empty, though no checkpoint knows of it.
            allocated_ms = self._intake.last_allocated_ms
            self._skippable = {time_ms for time_ms in due if time_ms > allocated_ms} - resume.pending
        self._waiting.extend(due)
        self._generated_ms = max([resume.last_time_ms, *due])
        return start_ms

    def abandon(self) -> None:
        """Make no further batch, and let nobody wait for what is to be made any longer."""
        self._timer.interrupt()
        with self._generated:
            self._abandoned = True
            self._generated.notify_all()

    def stop(self, deadline: float | None, tell: Callable[[int], object] = lambda _left: None) -> bool:
        """End the ticking.

        Args:
            deadline: monotonic seconds until which batches may still be generated and run, so that all that was
                received is processed; ``None`` to stop at once.
            tell: is told how many batches are left.

        Returns:
            Whether every batch was run to its end and, with a deadline, every block is in one.
        """
        if deadline is None:
            last_ms = self._timer.stop(interrupt=True)
            done = self._is_made(last_ms) and not self._scheduler.pending_batches
        else:
            last_ms = self._timer.stop(interrupt=False, timeout_s=max(deadline - time.monotonic(), 0))
            if self._await_made(last_ms, deadline) and not self._abandoned:
                last_ms = self._tick_for_the_rest(last_ms)
            all_made = self._await_made(last_ms, deadline) and not self._intake.has_unallocated_blocks
            done = self._scheduler.await_pending(deadline, tell) and all_made
        # What fails from now on fails for the stop, which cuts an output's tries short.
        self._scheduler.abandon()
        self._graph.stop()
        self._loop.stop(_LAST_EVENT_S)
        return done

    def _await_made(self, last_ms: int, deadline: float) -> bool:
        with self._generated:
            self._generated.wait_for(
                lambda: self._is_made(last_ms) or self._abandoned, max(deadline - time.monotonic(), 0)
            )
            return self._is_made(last_ms)

    def _tick_for_the_rest(self, last_ms: int) -> int:
        """Tick for blocks that no batch has, or one that was not made: the clock was set back, or a journal failed.

        Returns:
            The last tick.
        """
        interval_ms = self._graph.batch_interval_ms
        until_ms = max(self._generated_ms, self._intake.last_allocated_ms)
        if self._intake.has_unallocated_blocks:
            until_ms += interval_ms
        for last_ms in range(self._generated_ms + interval_ms, until_ms + 1, interval_ms):
            self._loop.post(_Tick(last_ms))
        return last_ms

    def _is_made(self, last_ms: int) -> bool:
        # What is late comes before the ticks.
        return self._generated_ms >= last_ms and not self._waiting

    def release_blocks(self, before_ms: int) -> None:
        """Have the blocks of batches strictly older than a time deleted: no checkpoint needs them. From any thread."""
        self._loop.post(_Cleanable(before_ms))

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

    def _handle(self, event: _Event) -> None:
        if isinstance(event, _Tick):
            self._waiting.append(event.time_ms)
        elif isinstance(event, _TryAgain):
            self._backing_off = False
        try:
            if isinstance(event, _BatchCompleted):
                self._clear_metadata(event.time_ms)
            elif isinstance(event, _Cleanable):
                self._intake.clean_up(event.before_ms, delete=self._unpersist)
        # A clean-up that fails holds up no batch.
        finally:
            self._make_waiting()

    def _make_waiting(self) -> None:
        while self._waiting and self._has_room() and not self._backing_off:
            if self._waiting[0] in self._skippable and not self._intake.has_unallocated_blocks:
                log.info("an empty batch of the time in between is left out", batch_time=self._waiting.popleft())
                continue
            error = self._allocate(self._waiting[0])
            if not self._backing_off:
                self._make(self._waiting[0], error)
        self._pause(bool(self._waiting) and not self._is_below(self._pause_at))

    def _has_room(self) -> bool:
        is_late = bool(self._waiting) and self._waiting[0] <= self._late_ms
        return self._is_below(self._pause_at) and (not is_late or self._is_below(self._late_max_pending))

    def _is_below(self, limit: int) -> bool:
        return not limit or len(self._scheduler.pending_batches) < limit

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
            if tries <= self._graph.runtime.generation_retries:
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
                # Not before: what is neither here nor with the scheduler is complete.
                self._waiting.popleft()
                self._generated_ms = max(self._generated_ms, time_ms)
                self._generated.notify_all()
            self._save()

    def _job_set(self, time_ms: int, error: BatchFailedError | None) -> JobSet:
        jobs: list[Job] = []
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
            before_ms, done_ms = self._needed()
            self._intake.processed(done_ms)
            self._graph.clear_metadata(done_ms, unpersist=self._unpersist)
            self._input_info.clean_up(before_ms)
            if not self._keeps_blocks:
                self._intake.clean_up(before_ms, delete=self._unpersist)
        self._save()

    def _needed(self) -> tuple[int, int]:
        """Since when blocks are needed still, and up to when all batches are complete."""
        # What waits to be made is needed, too. It goes from here to the scheduler, and is looked for in that order.
        waiting_ms = next(iter(list(self._waiting)), None)
        needed_ms = self._scheduler.oldest_needed
        oldest_ms = done_ms = self._completed_ms
        for time_ms in (needed_ms, waiting_ms):
            if time_ms is not None:
                oldest_ms, done_ms = min(oldest_ms, time_ms), min(done_ms, time_ms - self._graph.batch_interval_ms)
        return oldest_ms - self._graph.max_input_remember_ms, done_ms

    def save(self) -> None:
        """Have a last checkpoint written, when the loop has ended; none of a start that failed."""
        self._save()

    def _save(self) -> None:
        if self._checkpoints is None or self._generated_ms < 0:
            return
        with self._timed("checkpoint"):
            # A late batch that is not made yet is one that is not complete. What is made or ends between these steps
            # counts as it was before, which is of no harm.
            last_ms, needed_ms = self._generated_ms, self._needed()[0]
            waiting = [time_ms for time_ms in list(self._waiting) if time_ms <= self._late_ms]
            pending = sorted({*waiting, *self._scheduler.pending_batches})
            self._checkpoints.save(last_ms, pending, needed_ms)

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
