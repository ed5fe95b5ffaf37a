"""``TrackedReceivers``: runs the life cycle of all receivers of a context.

Carries out the effects of ``relaunch_lifecycle.step``. Every second it also checks for lost executors, overdue launches
and receivers that should move. Only the loop changes records; before it starts, the constructing thread does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from penstock.errors import ReceiverFailedError, text_of
from penstock.listen.events import Event
from penstock.receive.messages import CleanUpBlocks, StopReceiver
from penstock.receive.rate_limiter import RateLimits
from penstock.receive.relaunch_policy import RelaunchPolicy
from penstock.runtime.clock import Clock
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.log import get_logger
from penstock.runtime.tracebacks import traceback_of
from penstock.spark import failure
from penstock.spark.cluster import TaskLocation
from penstock.track import receiver_tracking_info as lifecycle
from penstock.track.block_locations import BlockLocations
from penstock.track.placement import schedule_receivers
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock.track.receiver_connection import ReceiverConnection
from penstock.track.receiver_launcher import ReceiverJob, ReceiverLauncher
from penstock.track.receiver_tracking_info import BackingOff, GivenUp, ReceiverTrackingInfo, Scheduled, Waiting
from penstock.track.relaunch_lifecycle import step

log = get_logger("receiver_tracker")

_TICK_MS = 1000
# Interval of the check whether a receiver should move to an executor that has joined.
_REBALANCE_MS = 5000
# After a receiver has moved, its old launch serves blocks for this long. That occupies a slot, so the time is extended
# only while batches complete. Afterwards tasks on that host read the files.
_SERVE_MS = 60_000
# Minimum interval between two extensions.
_SERVE_AGAIN_MS = 30_000


class TrackedReceivers:
    """Run the life cycle of receivers; ``blocks`` saves the epochs of their launches."""

    def __init__(
        self,
        launcher: ReceiverLauncher,
        blocks: ReceivedBlockTracker,
        clock: Clock,
        post: Callable[[Event], None],
        fail_application: Callable[[BaseException], None],
    ) -> None:
        #: The record of each receiver, by stream id; replaced on the loop, read on any thread.
        self.records = {
            # Block ids contain the epoch: a recovered run must not use an epoch again.
            stream_id: ReceiverTrackingInfo(
                stream_id,
                f"{type(receiver).__name__}-{stream_id}",
                RelaunchPolicy(launcher.settings),
                epoch=blocks.state.epochs.get(stream_id, 0),
                jitter_seed=launcher.run_id,
            )
            for stream_id, receiver in launcher.receivers.items()
        }
        # Notified of each new record.
        self._stepped = threading.Condition()
        self._blocks = blocks
        self._clock = clock
        self._launcher = launcher
        #: The locations of the blocks of all launches.
        self.locations = BlockLocations(launcher)
        self._connections = self.locations.connections
        self._post = post
        self._fail_application = fail_application
        self.loop: EventLoop[Callable[[], None]] = EventLoop(
            "ReceiverTracker",
            lambda action: action(),
            lambda error: log.error("tracker event failed", exc_info=error),
            clock,
        )
        #: Changed on the loop only.
        self.rate_limits = RateLimits(launcher.settings, launcher.receivers)
        #: Jobs that have not ended, by stream id and epoch. Changed on the loop, read on any thread.
        self.jobs: dict[tuple[int, int], ReceiverJob] = {}
        # Monotonic time of the start.
        self._started_ms = 0.0
        # Monotonic time of the last check whether a receiver should move.
        self._rebalanced_ms = 0.0
        # Monotonic time of the last request to serve blocks for longer.
        self._serve_asked_ms = 0.0
        # Monotonic time of the last completed batch; written by the thread that completes it.
        self._batch_ms = 0.0
        self._limit_rates(self.rate_limits.limits())

    # -- on any thread --

    def start(self) -> None:
        """Launch every receiver once enough executors have joined, and start the periodic checks."""
        self._started_ms = self._clock.monotonic_ms()
        self.loop.post(self._launch_all)
        self.loop.post_later(_TICK_MS, self._tick)

    def note_batch(self) -> None:
        """Note that a batch has completed."""
        self._batch_ms = self._clock.monotonic_ms()

    def stop(self) -> None:
        """Stop the loop and close the connections; report receivers that are still active as stopped."""

        def end_all() -> None:
            for stream_id, record in self.records.items():
                if record.is_active:
                    self.step(stream_id, lifecycle.JobEnded(record.epoch))

        self.loop.post(end_all)
        self.loop.stop(5.0, drain=True)
        self._connections.close()

    def await_end(self, stream_id: int, timeout_s: float) -> bool:
        """Wait until the current launch of a receiver can hold no more received data.

        Returns ``False`` after the timeout.
        """
        with self._stepped:
            return self._stepped.wait_for(lambda: self.records[stream_id].launch is None, timeout_s)

    # -- the life cycle and its effects; on the loop --

    def step(self, stream_id: int, event: lifecycle.LifecycleEvent) -> Any:
        """Apply an event to a receiver's record and carry out the effects; return the answer if the event has one."""
        before, answer, now_ms = self.records[stream_id], None, self._clock.monotonic_ms()
        record, effects = step(before, event, now_ms, self._clock.now_ms())
        with self._stepped:
            self.records[stream_id] = record
            self._stepped.notify_all()
        for epoch in before.released ^ record.released:
            self._connections.set_serving(stream_id, epoch, epoch not in record.released)
        match record.state:
            case Scheduled(launch, candidates) if launch.epoch != before.epoch:
                on_end = partial(self._on_job_end, stream_id, launch.epoch)
                job = self._launcher.make_job(stream_id, launch.epoch, candidates, on_end)
                # The job must be known before its receiver can register.
                self.jobs[stream_id, launch.epoch] = job
                job.start()
            case BackingOff(until_ms) if record.state is not before.state:
                self.loop.post_later(until_ms - now_ms, partial(self._relaunch, stream_id))
            case GivenUp() if not before.is_given_up:
                # The other receivers get its share of the application's maximum rate.
                self._limit_rates(self.rate_limits.give_up(stream_id))
        for effect in effects:
            match effect:
                case lifecycle.CancelJob():
                    self.jobs[stream_id, effect.epoch].cancel()
                case lifecycle.Connect():
                    undelivered = partial(self._on_undelivered, effect.message.epoch)
                    connection = self._launcher.connect(effect.message, record.block_location, undelivered)
                    self._connections.add(effect.message.epoch, connection)
                    self.locations.delete_pending_blocks(connection)
                case lifecycle.Send():
                    self._send(stream_id, effect)
                case lifecycle.Answer():
                    answer = effect.message
                case lifecycle.Post():
                    self._post(effect.event)
                case lifecycle.FailApplication():
                    self._fail_application(ReceiverFailedError(effect.message))
                case lifecycle.Log():
                    fields = {"stream_id": stream_id, "receiver_id": record.name}
                    getattr(log, effect.level)(effect.event, **fields, **effect.context)
        return answer

    def _send(self, stream_id: int, effect: lifecycle.Send) -> None:
        to = self._connections.get(stream_id, effect.epoch)
        if to is not None:
            to.send(effect.message, urgent=effect.urgent)

    def step_all(self, event: lifecycle.LifecycleEvent) -> None:
        """Apply an event to every record."""
        for stream_id in self.records:
            self.step(stream_id, event)

    def _on_job_end(self, stream_id: int, epoch: int, error: BaseException | None) -> None:
        """Called on the job's thread."""
        failed = ("", "") if error is None else (self._launcher.reason(stream_id, error), text_of(error))

        def ended() -> None:
            self._connections.end(stream_id, epoch)
            self.jobs.pop((stream_id, epoch), None)
            self.step(stream_id, lifecycle.JobEnded(epoch, *failed))

        self.loop.post(ended)

    def _on_undelivered(self, epoch: int, connection: ReceiverConnection, message: object) -> None:
        """Called on a sending thread."""
        if isinstance(message, CleanUpBlocks):
            self.loop.post(lambda: self.locations.not_deleted(connection, message.block_ids))
        else:
            self.loop.post(lambda: self.step(connection.stream_id, lifecycle.Undelivered(epoch, message)))

    # -- launches; on the loop --

    def _launch_all(self) -> None:
        waiting = [stream_id for stream_id, record in self.records.items() if isinstance(record.state, Waiting)]
        waited_ms = self._clock.monotonic_ms() - self._started_ms
        if waiting and self._launcher.placement.has_enough_executors(len(waiting), waited_ms):
            preferred = self._preferred(waiting)
            self._launch(schedule_receivers(preferred, self._launcher.placement.executors()), preferred)

    def _relaunch(self, stream_id: int) -> None:
        record = self.records[stream_id]
        if not isinstance(record.state, BackingOff):
            return
        preferred = self._preferred([stream_id])
        if preferred:
            others = [other for other in self.records.values() if other is not record]
            goes_back = self.locations.awaits(record.block_location)
            candidates = self._launcher.placement.reschedule(record, others, preferred[stream_id], goes_back=goes_back)
            self._launch({stream_id: candidates}, preferred)

    def _preferred(self, stream_ids: Iterable[int]) -> dict[int, str | None]:
        """The hosts that receivers prefer. A receiver that raises is reported and left out."""
        preferred: dict[int, str | None] = {}
        for stream_id in stream_ids:
            try:
                preferred[stream_id] = self._launcher.receivers[stream_id].preferredLocation()
            # User code may raise anything.
            except Exception as error:
                reason = f"preferredLocation raised {failure.reason(error)}"
                self.step(stream_id, lifecycle.LaunchFailed(reason, traceback_of(error)))
        return preferred

    def _launch(self, candidates: Mapping[int, Sequence[TaskLocation]], preferred: Mapping[int, str | None]) -> None:
        is_saved = self._blocks.note_launches(
            {stream_id: self.records[stream_id].epoch + 1 for stream_id in candidates}
        )
        for stream_id, chosen in candidates.items():
            self.step(stream_id, lifecycle.LaunchDue(tuple(chosen), preferred[stream_id]))
            if self._launcher.logs is not None and is_saved:
                # From now on, reports of older launches are refused.
                self._launcher.logs.remove_unreported(
                    stream_id, self.records[stream_id].epoch, self._blocks.retained_ids
                )

    # -- periodic checks; on the loop --

    def _tick(self) -> None:
        self.loop.post_later(_TICK_MS, self._tick)
        self._launch_all()
        for stream_id in self._launcher.placement.lost(self.records.values()):
            self.step(stream_id, lifecycle.ExecutorLost())
        self.tick_all()
        now_ms = self._clock.monotonic_ms()
        is_due = now_ms - self._serve_asked_ms >= _SERVE_AGAIN_MS and self._batch_ms > self._serve_asked_ms
        # A receiver that is not active may wait for the slot that a draining launch occupies.
        if is_due and all(record.is_active or record.is_given_up for record in self.records.values()):
            self._serve_asked_ms = now_ms
            longer = StopReceiver("serve blocks longer", _SERVE_MS)
            for stream_id, record in self.records.items():
                for epoch in record.draining:
                    self._send(stream_id, lifecycle.Send(epoch, longer, urgent=True))
        if now_ms - self._rebalanced_ms >= _REBALANCE_MS:
            self._rebalanced_ms = now_ms
            if (moved := self._launcher.placement.to_move(self.records)) is not None:
                connection = self._connections.get(moved, self.records[moved].epoch)
                serves = connection is not None and self.locations.needs(connection)
                self.step(moved, lifecycle.Move(_SERVE_MS if serves else 0))

    def tick_all(self) -> None:
        """Send every record a tick that names its draining launches whose blocks are still needed."""
        for stream_id, record in self.records.items():
            connections = {epoch: self._connections.get(stream_id, epoch) for epoch in record.draining}
            needed = [epoch for epoch, to in connections.items() if to is not None and self.locations.needs(to)]
            self.step(stream_id, lifecycle.Tick(frozenset(needed)))

    def estimate_rate(self, stream_id: int, rate: float) -> None:
        """Use an estimated rate, records/s, for a receiver."""
        self._limit_rates(self.rate_limits.estimate(stream_id, rate))

    def _limit_rates(self, limits: Mapping[int, float | None]) -> None:
        for stream_id, limit in limits.items():
            if limit != self.records[stream_id].desired.rate:
                self.step(stream_id, lifecycle.RateLimit(limit))
