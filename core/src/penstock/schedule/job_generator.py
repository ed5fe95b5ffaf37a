"""``JobGenerator``: generates a batch at every tick of the timer, and cleans up after completed batches.

Its loop never runs a job and never blocks: a batch that has to wait stays among the due batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from attrs import frozen

from penstock import conf
from penstock.conf import Settings
from penstock.errors import BatchFailedError, StreamingStateError
from penstock.graph.dstream_graph import DStreamGraph
from penstock.graph.outputs import Job, generation_backoff
from penstock.runtime.batch_clock import BatchClock
from penstock.runtime.clock import Clock, iso_time
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.log import bound_fields, get_logger
from penstock.runtime.recurring_timer import RecurringTimer
from penstock.runtime.tracebacks import from_the_program
from penstock.schedule.due_batches import DueBatches
from penstock.schedule.job_scheduler import JobScheduler, JobSet
from penstock.schedule.recovered_state import RecoveredState, StateRestore, without
from penstock.schedule.unfinished_batches import UnfinishedBatches
from penstock.spark import failure

if TYPE_CHECKING:
    from penstock.checkpoint.checkpointer import Checkpointer
    from penstock.track.receiver_tracker import ReceiverTracker

log = get_logger("job_generator")

# Time for the loop's current event to finish during a stop.
_LAST_EVENT_S = 5.0
_THROTTLE_S = 60


@frozen
class RecoveredBatches:
    """The batches in a checkpoint.

    ``late`` are batches that no run has generated, ``skipped`` batch times that were never due. States are recomputed
    for all other batches after ``state_ms``, or after one of ``later_states``; ``None`` without state.
    """

    zero_time_ms: int
    last_time_ms: int
    pending: frozenset[int]
    state_ms: int | None
    late: Sequence[range] = ()
    later_states: Sequence[StateRestore] = ()
    skipped: Sequence[range] = ()

    def due(self, start_ms: int, interval_ms: int) -> list[range]:
        """The batches to generate before ``start_ms``: pending ones and those of all downtimes, oldest first."""
        # The earlier run may have died before it generated a batch after skipped times.
        downtime = without(range(self.last_time_ms + interval_ms, start_ms, interval_ms), self.skipped)
        pending = [range(time_ms, time_ms + 1) for time_ms in self.pending]
        return sorted(filter(None, [*pending, *self.late, *downtime]), key=lambda batches: batches.start)


class JobGenerator:
    """Generates batches, and saves a checkpoint when one is generated or completes."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        graph: DStreamGraph,
        scheduler: JobScheduler,
        tracker: ReceiverTracker,
        on_error: Callable[[BaseException], None],
        checkpointer: Checkpointer | None = None,
    ) -> None:
        self._settings = settings
        self._clock = BatchClock.of(clock)
        self._graph = graph
        self._scheduler = scheduler
        self._tracker = tracker
        self._checkpointer = checkpointer
        self._on_error = on_error
        # With the write-ahead log on, a later run may read the blocks of this one.
        self._retains_blocks = checkpointer is not None and settings.wal_enabled
        self._retains_failed = self._retains_blocks or settings.on_failed_batch == "retry"
        self._max_pending = settings.max_pending_batches if settings.on_max_pending_batches == "pause" else 0
        # The loop's events are calls; after every call the due batches are generated. The loop uses real time even
        # under a manual clock, because retries are short and nobody would advance the clock for them.
        self._loop: EventLoop[Callable[[], None]] = EventLoop("JobGenerator", self._handle, on_error)
        self._timer = RecurringTimer(
            self._clock,
            graph.batch_interval_ms,
            self._tick,
            "JobGenerator",
            on_error,
            skip_missed=settings.late_ticks == "skip",
            on_missed=self._on_missed,
        )
        self._due = DueBatches(graph.batch_interval_ms)
        self._backoff = generation_backoff(graph.batch_interval_ms)
        self._backing_off = False
        self._paused = False
        self._completed_ms = -1
        # The pending batches of an earlier run.
        self._begun: frozenset[int] = frozenset()
        # Until the first batch of the timer.
        self._state: RecoveredState | None = None

    def start(self, recovered: RecoveredBatches | None = None) -> None:
        """Set zero time to a multiple of the batch interval and start the timer; it ticks within one batch interval.

        A recovered run keeps its zero time, and first generates the pending batches and those of the downtime.
        """
        start_ms = self._timer.start_time_ms()
        if recovered is None:
            zero_time_ms = start_ms - self._graph.batch_interval_ms
            self._graph.start(zero_time_ms)
            if self._checkpointer is not None:
                self._checkpointer.begin(zero_time_ms)
            self._due.begin(zero_time_ms)
        else:
            start_ms = self._recover(recovered, start_ms)
        self._loop.start()
        # After any event the loop generates the due batches. Without this one, late batches would wait for the first
        # tick.
        self._loop.post(self._retry_allocation)
        self._timer.start(start_ms)

    def _recover(self, recovered: RecoveredBatches, start_ms: int) -> int:
        """Add the late batches; return the time of the first tick in ms."""
        interval_ms = self._graph.batch_interval_ms
        # The driver may have died between the allocation to a batch and its checkpoint.
        last_ms = max(recovered.last_time_ms, self._tracker.last_allocated_ms)
        if start_ms <= last_ms:
            behind_ms = last_ms + interval_ms - start_ms
            log.warning(
                "wall clock behind last batch",
                last_batch=last_ms,
                delay_s=behind_ms / 1000,
                effect="batch times continue in sequence, ahead of the wall clock",
            )
            self._clock.run_ahead(behind_ms)
            start_ms += behind_ms
        self._graph.start(recovered.zero_time_ms)
        self._graph.late_until_ms = start_ms - interval_ms
        due = recovered.due(start_ms, interval_ms)
        self._begun = recovered.pending
        if recovered.state_ms is not None:
            # State must also be recomputed for the completed batches after the checkpointed RDD.
            self._state = RecoveredState(self._graph, recovered.state_ms, recovered.later_states, recovered.skipped)
            self._state.advance(due[0][0] if due else start_ms)
        log.info("batches recovered", due=sum(map(len, due)), pending=len(recovered.pending), first_tick=start_ms)
        skippable_after_ms = None
        if self._settings.catch_up == "skip-empty" and not self._graph.needs_every_batch:
            # A batch may have blocks although no checkpoint mentions it.
            skippable_after_ms = max([self._tracker.last_allocated_ms, *recovered.pending])
        self._due.add_late(due, start_ms - interval_ms, skippable_after_ms)
        self._due.begin(start_ms - interval_ms)
        self._due.skipped = recovered.skipped
        return start_ms

    def abandon(self) -> None:
        """Stop the timer without a further tick, and end the waits of ``stop``. Any thread.

        Due batches may still be generated until the loop stops.
        """
        self._timer.interrupt()
        self._due.abandon()

    def stop(self, deadline: float | None, on_progress: Callable[[int], object] = lambda _left: None) -> bool:
        """Stop the timer and generate the due batches.

        With a deadline (monotonic seconds), all received data is processed until then; ``None`` stops at once. Returns
        whether every batch is complete and, with a deadline, every block was allocated to a batch.
        """
        if deadline is None:
            last_ms = self._timer.stop(interrupt=True)
            done = self._due.are_generated(last_ms) and not self._scheduler.pending_batches
        else:
            last_ms = self._timer.stop(interrupt=False, timeout_s=deadline - time.monotonic())
            if self._due.await_generated(last_ms, deadline) and not self._due.is_abandoned:
                last_ms = self._tick_for_remaining_blocks()
            all_generated = self._due.await_generated(last_ms, deadline)
            all_generated = all_generated and not self._tracker.has_unallocated_blocks
            done = self._scheduler.await_pending(deadline, on_progress) and all_generated
        # Later failures are a consequence of the stop, which cuts retries short.
        self._scheduler.abandon()
        self._graph.stop()
        self._loop.stop(_LAST_EVENT_S)
        return done

    def _tick_for_remaining_blocks(self) -> int:
        """Tick for unallocated blocks and for allocated batches that were not generated; return the last tick in ms."""
        # Such blocks exist if the write-ahead log could not be written.
        interval_ms = self._graph.batch_interval_ms
        last_ms = self._due.generated_ms
        until_ms = max(last_ms, self._tracker.last_allocated_ms)
        if self._tracker.has_unallocated_blocks:
            until_ms += interval_ms
        while last_ms < until_ms:
            last_ms += interval_ms
            self._tick(last_ms)
        return last_ms

    def batch_completed(self, time_ms: int) -> None:
        """Clean up after a completed batch. Any thread."""
        self._loop.post(partial(self._clear_metadata, time_ms))

    def release_blocks(self, before_ms: int, retained: Sequence[range] = ()) -> None:
        """Delete blocks of batches older than a time and not retained, which no checkpoint needs. Any thread."""
        self._loop.post(partial(self._tracker.clean_up, before_ms, retained, delete=self._settings.unpersist))

    def _tick(self, time_ms: int) -> None:
        self._loop.post(partial(self._add_due, time_ms))

    def _on_missed(self, count: int) -> None:
        log.warning("ticks missed", count=count, policy=self._settings.late_ticks, throttle_s=_THROTTLE_S)

    # -- on the loop --

    def _handle(self, call: Callable[[], None]) -> None:
        try:
            call()
        # A failed clean-up must not hold up a batch.
        finally:
            self._generate_due()

    def _add_due(self, time_ms: int) -> None:
        self._due.add(time_ms)
        # Reported here because a job that was submitted while the SparkContext stopped may never end.
        if self._graph.is_spark_stopped:
            self._on_error(StreamingStateError("the SparkContext was stopped"))

    def _retry_allocation(self) -> None:
        # The loop generates the due batches after every event.
        self._backing_off = False

    def _generate_due(self) -> None:
        while (time_ms := self._due.first) is not None and not self._backing_off:
            if not (self._is_below(self._max_pending) and self._is_below(self._due.max_pending)):
                break
            if self._due.is_first_skippable and not self._tracker.has_unallocated_blocks:
                log.info("empty batch of the downtime skipped", batch_time=self._due.skip_first())
                continue
            error = self._allocate(time_ms)
            if not self._backing_off:
                self._generate(time_ms, error)
        self._pause(self._due.first is not None and not self._is_below(self._max_pending))

    def _is_below(self, limit: int) -> bool:
        return not limit or len(self._scheduler.pending_batches) < limit

    def _pause(self, paused: bool) -> None:
        if paused == self._paused:
            return
        self._paused = paused
        pending = len(self._scheduler.pending_batches)
        if paused:
            key = conf.key("max_pending_batches")
            log.warning("receivers paused: too many pending batches", pending=pending, key=key, throttle_s=_THROTTLE_S)
        else:
            log.warning("receivers resumed", pending=pending, throttle_s=_THROTTLE_S)
        self._tracker.pause(paused)

    def _allocate(self, time_ms: int) -> BatchFailedError | None:
        """Allocate blocks to a batch.

        On failure, schedule a retry with back-off; return the error when the retries are exhausted.
        """
        try:
            self._tracker.allocate_blocks_to_batch(time_ms)
        except BaseException as error:
            attempts = self._backoff.failures + 1
            if attempts <= self._graph.runtime.generation_retries:
                delay_ms = self._backoff.next_ms()
                log.warning(
                    "block allocation failed, retrying",
                    batch_time=time_ms,
                    attempt=attempts,
                    delay_ms=round(delay_ms),
                    reason=failure.reason(error),
                )
                self._backing_off = True
                self._loop.post_later(delay_ms, self._retry_allocation)
                return None
            self._backoff.reset()
            # The blocks go into the next batch.
            self._graph.unallocated.add(time_ms)
            return _not_generated(time_ms, error, f"allocating its blocks failed after {attempts} attempts")
        self._backoff.reset()
        return None

    def _generate(self, time_ms: int, error: BatchFailedError | None) -> None:
        try:
            with bound_fields(batch_time=time_ms):
                self._scheduler.submit(self._job_set(time_ms, error))
        finally:
            # Remove the batch from the queue only after its submission: a batch that is neither due nor pending counts
            # as complete.
            self._due.first_generated()
            self.save()

    def _job_set(self, time_ms: int, error: BatchFailedError | None) -> JobSet:
        jobs: list[Job] = []
        if error is None:
            try:
                started_ms = self._clock.monotonic_ms()
                self._advance_state(time_ms)
                jobs = self._graph.generate_jobs(time_ms)
                self._log_if_slow(time_ms, self._clock.monotonic_ms() - started_ms)
            # The program's functions run here, and may raise SystemExit, which must not end the loop's thread.
            except BaseException as caught:
                error = _not_generated(time_ms, caught, "generating its jobs failed")
        if error is not None:
            log.error("batch not generated", batch_time=time_ms, reason=str(error))
            jobs = self._graph.failed_jobs(error)
        input_info = self._scheduler.input_info
        info, final_info = input_info.info(time_ms), partial(input_info.final_info, time_ms)
        return JobSet(time_ms, jobs, info, self._clock.now_ms(), final_info)

    def _advance_state(self, time_ms: int) -> None:
        """Have the state contain the completed batches between two batches that are generated again."""
        if self._state is not None:
            # Times that the clock of this run skips have no batch.
            since_ms = self._graph.late_until_ms + self._graph.batch_interval_ms
            self._state.advance(min(time_ms, since_ms))
            if time_ms >= since_ms:
                self._state = None

    def _log_if_slow(self, time_ms: int, took_ms: float) -> None:
        if took_ms > self._graph.batch_interval_ms:
            slowest_ms, call_site = self._graph.slowest
            log.warning(
                "batch generation slower than the batch interval",
                batch_time=time_ms,
                took_ms=round(took_ms),
                slowest=call_site,
                slowest_ms=round(slowest_ms),
                throttle_s=_THROTTLE_S,
            )

    def _clear_metadata(self, time_ms: int) -> None:
        # A batch may complete before an older one, which still needs its blocks and its parents' RDDs.
        self._completed_ms = max(self._completed_ms, time_ms)
        batches = self._unfinished()
        before_ms, done_ms = self._needed_ms(batches), batches.done_ms(self._graph.batch_interval_ms)
        self._graph.failed_ms = sorted(batches.failed)
        failed = self._graph.failed_ms if self._retains_failed else []
        self._tracker.processed(done_ms, failed)
        self._graph.clear_metadata(done_ms, unpersist=self._settings.unpersist)
        self._scheduler.input_info.clean_up(before_ms)
        if not self._retains_blocks:
            # A failed batch needs the blocks of its windows, too.
            since_ms = self._graph.max_input_remember_ms
            retained = [range(time_ms - since_ms, time_ms + 1) for time_ms in failed]
            self._tracker.clean_up(before_ms, retained, delete=self._settings.unpersist)
        self.save()

    def _unfinished(self) -> UnfinishedBatches:
        # In the order in which a batch moves: one that moves meanwhile is collected twice, and not overlooked.
        generated_ms, late, first_due_ms = self._due.generated_ms, self._due.late, self._due.first
        pending, dropped, failed = self._scheduler.unfinished()
        return UnfinishedBatches(
            generated_ms, self._completed_ms, first_due_ms, tuple(late), self._begun, pending, dropped, failed
        )

    def _needed_ms(self, batches: UnfinishedBatches) -> int:
        """No batch needs older blocks, failed batches aside."""
        return batches.oldest_ms - self._graph.max_input_remember_ms

    def save(self) -> None:
        """Queue a checkpoint; on the loop, or after its end. Without effect if the start failed."""
        if self._checkpointer is None or self._due.generated_ms < 0:
            return
        batches = self._unfinished()
        # A recovered run recomputes no state from before the oldest checkpointed one.
        recoverable_ms = self._checkpointer.recoverable_ms
        self._due.forget_skipped(batches.generated_ms if recoverable_ms is None else recoverable_ms)
        self._checkpointer.save(batches, self._needed_ms(batches), self._due.skipped)


def _not_generated(time_ms: int, error: BaseException, reason: str) -> BatchFailedError:
    failed = BatchFailedError(f"batch {iso_time(time_ms)} could not be generated: {reason}: {failure.reason(error)}")
    failed.__cause__ = error.with_traceback(from_the_program(error.__traceback__))
    return failed
