"""``ReceiverStates``: how receivers come and go: they register, report errors, deregister, and their jobs end.

Owns the transitions of a receiver's state. Its methods handle one message each, on the tracker's loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from attrs import evolve

from penstock.conf import Settings
from penstock.errors import text_of
from penstock.listen.events import Event, ReceiverStarted, ReceiverStopped
from penstock.receive.messages import DeregisterReceiver, Registered, RegisterReceiver, ReportError, StopReceiver
from penstock.runtime.log import get_logger
from penstock.spark import failure
from penstock.spark.cluster import TaskLocation
from penstock.track.block_places import BlockPlaces
from penstock.track.intake_pauses import IntakePauses
from penstock.track.keepers import Keepers
from penstock.track.launches import Launches
from penstock.track.line import Line, Place
from penstock.track.orders import Orders
from penstock.track.placement import Placement
from penstock.track.receiver_failures import ReceiverFailures
from penstock.track.receiver_rates import ReceiverRates
from penstock.track.tracked_receiver import ReceiverState, TrackedReceiver
from penstock.track.unread_blocks import UnreadBlocks
from penstock.wire.client import Client
from penstock.wire.messages import Reply
from penstock.wire.token import Token

log = get_logger("receiver_tracker")


class ReceiverStates:
    """Take receivers, and let them go.

    Args:
        tracked: the receivers, by stream id.
        settings: in force.
        token: shown to receivers.
        stopping: behind it nobody registers, and nothing is launched again.
        post: gives an event to the listeners.
        launches: launch a receiver again.
        placement: says whether a receiver may run where it is.
        failures: are told of errors.
        places: where a receiver's blocks are.
        keepers: launches that serve them when the receiver is elsewhere.
        unread: is told of a receiver's disk.
        pauses: whether a receiver may take anything.
        rates: how much it may take.
        orders: number what a receiver learns when it registers.
    """

    def __init__(
        self,
        tracked: Mapping[int, TrackedReceiver],
        settings: Settings,
        token: Token,
        stopping: threading.Event,
        post: Callable[[Event], None],
        launches: Launches,
        placement: Placement,
        failures: ReceiverFailures,
        places: BlockPlaces,
        keepers: Keepers,
        unread: UnreadBlocks,
        pauses: IntakePauses,
        rates: ReceiverRates,
        orders: Orders,
    ) -> None:
        self._tracked, self._settings, self._token = tracked, settings, token
        self._stopping, self._post = stopping, post
        self._launches, self._placement, self._failures = launches, placement, failures
        self._places, self._keepers, self._unread, self._pauses = places, keepers, unread, pauses
        self._rates, self._orders = rates, orders

    def on_job_end(self, tracked: TrackedReceiver, epoch: int, error: BaseException | None) -> None:
        """A launch has ended: tell how, and launch the receiver again unless it is given up or all stops."""
        if self._keepers.ended(tracked.stream_id, epoch) or epoch != tracked.epoch:
            return
        try:
            self._on_job_end(tracked, epoch, error)
        finally:
            tracked.ended.set()
            # If it is given up, the others may have its part.
            self._rates.divide()

    def _on_job_end(self, tracked: TrackedReceiver, epoch: int, error: BaseException | None) -> None:
        was_active = tracked.is_active
        tracked.state = ReceiverState.INACTIVE
        tracked.disconnect()
        if self._stopping.is_set():
            if was_active:
                self.gone(tracked)
            return
        # Spark may try a failed task again; that try exits at once, and the job ends well for all Spark knows.
        died = (error is not None or not tracked.deregistered) and not tracked.sent_away
        if died:
            reason = "its process died" if error is None else failure.reason(error)
            message = f"the receiver's task failed: {reason}"
            if not tracked.error_reported:
                self._tell_error(tracked, message, "" if error is None else text_of(error))
            self._failures.count(tracked, message)
        if was_active:
            self.gone(tracked)
        if not tracked.given_up:
            self._launch_again(tracked)

    def _launch_again(self, tracked: TrackedReceiver) -> None:
        epoch = tracked.epoch
        delay_ms = self._launches.launch_again(tracked)
        log.warning(
            "receiver ended, it is launched again",
            stream_id=tracked.stream_id,
            epoch=epoch,
            delay_ms=round(delay_ms),
            reason=tracked.info.lastErrorMessage,
        )

    def on_register(self, message: RegisterReceiver, task: TaskLocation | None) -> Registered:
        """A receiver is up: take it, or say why not. It runs where Spark says, if Spark says it."""
        tracked = self._tracked.get(message.stream_id)
        if tracked is None or message.epoch != tracked.epoch:
            return Registered(accepted=False, reason=f"stream {message.stream_id} has no launch {message.epoch}")
        if self._stopping.is_set():
            return Registered(accepted=False, reason="the application is stopping")
        if tracked.given_up:
            return Registered(accepted=False, reason="it is given up: it failed too often")
        # One that asks again is no other one.
        if tracked.sent_away or not self._placement.accepts(tracked, task):
            tracked.sent_away = True
            log.warning(
                "receiver refused: it is on another executor than it was scheduled to", stream_id=tracked.stream_id
            )
            return Registered(accepted=False, reason="it was scheduled to another executor")
        tracked.location = task
        self._unread.set_disk(self._places.disk(message.host), message.disk_bytes)
        place = Place(task.host if task else "", message.host, message.directory)
        location = self._token.location(message.host, message.port)
        # One that cannot be reached has most likely died: no use to try again.
        client = Client(location, self._token, self._settings.wire_timeout_ms, retry=False)
        line = Line(tracked.stream_id, place, client)
        tracked.connect(line)
        tracked.candidates = ()
        was_active = tracked.is_active
        tracked.state = ReceiverState.ACTIVE
        tracked.registered, tracked.deregistered = True, False
        tracked.error_reported, tracked.failure_counted, tracked.last_report = False, False, ""
        tracked.info = evolve(
            tracked.info,
            name=f"{message.receiver_type}-{message.stream_id}",
            active=True,
            location=place.host,
            executorId=task.executor_id if task else "",
        )
        log.info("receiver registered", stream_id=message.stream_id, epoch=message.epoch, host=place.host)
        if not was_active:
            self._post(ReceiverStarted(tracked.info))
        self._places.delete_leftovers(line)
        return Registered(
            accepted=True,
            rate=self._rates.at_registration(message.stream_id),
            paused=self._pauses.paused,
            number=self._orders.number(),
        )

    def on_deregister(self, message: DeregisterReceiver) -> Reply:
        """A receiver has stopped."""
        tracked = self._tracked.get(message.stream_id)
        if tracked is None or message.epoch != tracked.epoch:
            return Reply(accepted=False, reason=f"stream {message.stream_id} has no launch {message.epoch}")
        try:
            return self._on_deregister(tracked, message)
        finally:
            if message.ended:
                tracked.ended.set()

    def _on_deregister(self, tracked: TrackedReceiver, message: DeregisterReceiver) -> Reply:
        if not tracked.is_active:
            # It was told to move, and stopped by itself before to start again.
            if message.ended and tracked.is_to_keep:
                self._go_on_elsewhere(tracked)
                return Reply()
            return Reply(accepted=False, reason=f"launch {message.epoch} of stream {message.stream_id} is not active")
        tracked.state = ReceiverState.INACTIVE
        tracked.deregistered = True
        log.info(
            "receiver deregistered",
            stream_id=message.stream_id,
            epoch=message.epoch,
            reason=message.message,
            flushed=message.flushed,
            dropped=message.dropped,
        )
        if message.error and message.error == tracked.last_report:
            tracked.error_reported = True
        elif message.error and not tracked.error_reported:
            self._tell_error(tracked, message.message, message.error)
        elif not message.error and not self._stopping.is_set():
            tracked.note_end(message.message)
        if message.error and not self._stopping.is_set():
            self._failures.count(tracked, message.message)
            if tracked.given_up:
                # It may be about to start itself again.
                tracked.tell(StopReceiver("given up"), at_once=True)
        self.gone(tracked)
        if message.ended and tracked.is_to_keep:
            self._go_on_elsewhere(tracked)
        return Reply()

    def _go_on_elsewhere(self, tracked: TrackedReceiver) -> None:
        """Launch a receiver again, if it is to go on, while the launch that has ended serves its blocks."""
        if self._stopping.is_set() or tracked.given_up or tracked.launch is None or tracked.line is None:
            return
        self._keepers.keep(tracked.launch, tracked.line)
        tracked.launch = tracked.line = None
        tracked.is_to_keep = False
        self._launch_again(tracked)

    def on_report_error(self, message: ReportError) -> Reply:
        """Something went wrong, the receiver goes on."""
        tracked = self._tracked.get(message.stream_id)
        if tracked is None or message.epoch != tracked.epoch:
            return Reply(accepted=False, reason=f"stream {message.stream_id} has no launch {message.epoch}")
        (*_, reason) = message.error.strip().splitlines() or [""]
        log.warning("receiver error", stream_id=message.stream_id, message=message.message, reason=reason)
        # Not the end of it: what ends it may still be told of.
        tracked.last_report = message.error
        self._failures.tell(tracked, message.message, message.error)
        return Reply()

    def gone(self, tracked: TrackedReceiver) -> None:
        """A receiver runs no more: tell the listeners."""
        tracked.info = evolve(tracked.info, active=False)
        self._post(ReceiverStopped(tracked.info))

    def _tell_error(self, tracked: TrackedReceiver, message: str, error: str) -> None:
        tracked.error_reported = True
        self._failures.tell(tracked, message, error)
