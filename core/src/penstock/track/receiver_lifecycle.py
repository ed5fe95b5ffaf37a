"""The receiver life cycle: ``step`` turns a receiver's record and an event into the next record and its effects.

Pure: no thread, no Spark, no clock. The ReceiverTracker calls it on its loop and carries out the effects in order.
"""

from __future__ import annotations

import random
from typing import Any

from attrs import evolve

from penstock.listen.events import PastError, ReceiverError, ReceiverStarted, ReceiverStopped
from penstock.receive.messages import (
    DeregisterReceiver,
    Registered,
    RegisterReceiver,
    ReleaseReceiver,
    ReportError,
    StopReceiver,
    UpdateRateLimit,
)
from penstock.spark.cluster import TaskLocation
from penstock.track import lifecycle_messages as lifecycle
from penstock.track.receiver_tracking_info import (
    Active,
    BackingOff,
    BlockLocation,
    DesiredState,
    GivenUp,
    Launch,
    Moving,
    ReceiverTrackingInfo,
    Restarting,
    Scheduled,
    State,
    Stopped,
    Stopping,
    Waiting,
)
from penstock.wire.messages import Reply

# A launch that lived this long was healthy: the next back-off begins at the shortest delay.
_HEALTHY_MS = 10_000
# Preferred locations do not bind Spark: after this many wrong executors in a row, any executor is accepted.
_MAX_REFUSALS = 2
_RECENT_ERRORS = 20


def step(
    record: ReceiverTrackingInfo, event: lifecycle.LifecycleEvent, now_ms: float, wall_ms: int
) -> tuple[ReceiverTrackingInfo, tuple[lifecycle.Effect, ...]]:
    """Return the record after an event, and the effects to carry out in this order.

    Args:
        record: the record before the event.
        event: the event.
        now_ms: monotonic time, for delays and budgets.
        wall_ms: milliseconds since 1970, for what users see.
    """
    transition = _Transition(record, now_ms, wall_ms)
    transition.take(event)
    return transition.record, tuple(transition.effects)


class _Transition:
    """Computes one step: the record so far and the effects so far."""

    def __init__(self, record: ReceiverTrackingInfo, now_ms: float, wall_ms: int) -> None:
        self.record, self._now_ms, self._wall_ms = record, now_ms, wall_ms
        self.effects: list[lifecycle.Effect] = []

    def take(self, event: lifecycle.LifecycleEvent) -> None:
        match event:
            case lifecycle.LaunchDue() | lifecycle.LaunchFailed():
                self._launch(event)
            case lifecycle.Registration():
                self._register(event.message, event.location)
            case DeregisterReceiver() | ReportError():
                launch = self.record.launch
                if launch is None or event.epoch != launch.epoch:
                    self._answer(Reply(accepted=False, reason=no_launch(event)))
                elif isinstance(event, ReportError):
                    self._report_error(event)
                else:
                    self._deregister(event, launch)
            case lifecycle.JobEnded():
                self._job_ended(event)
            case lifecycle.Undelivered():
                self._undelivered(event)
            case lifecycle.Move():
                self._move(event.serve_ms)
            case lifecycle.ServeLonger():
                self._send_draining(StopReceiver("serve blocks longer", event.serve_ms))
            case lifecycle.DesiredChange():
                self._desire(event)
            case lifecycle.ProblemFound():
                info = self.record.info
                blocks, records = info.lost_blocks + event.lost_blocks, info.lost_records + event.lost_records
                self._set_info(lost_blocks=blocks, lost_records=records)
                self._note_error(event.message)
            case lifecycle.Tick():
                self._tick(event.needed)
            case lifecycle.Stop():
                self._stop(event.serve_ms)

    # -- launches --

    def _launch(self, event: lifecycle.LaunchDue | lifecycle.LaunchFailed) -> None:
        if not isinstance(self.record.state, Waiting | BackingOff):
            return
        candidates = event.candidates if isinstance(event, lifecycle.LaunchDue) else self.record.candidates
        launch = Launch(self.record.epoch + 1, self._now_ms)
        self._set(epoch=launch.epoch, sent=0)
        self._become(Scheduled(launch, candidates))
        if isinstance(event, lifecycle.LaunchFailed):
            self._job_ended(lifecycle.JobEnded(launch.epoch, event.reason, event.error))
            return
        self._set(preferred=event.preferred)
        self._do(lifecycle.StartJob(launch.epoch, candidates))
        self._log("info", "receiver launched", candidates=[each.preference for each in candidates])

    def _job_ended(self, event: lifecycle.JobEnded) -> None:
        self._set(draining={epoch: sent for epoch, sent in self.record.draining.items() if epoch != event.epoch})
        state, launch = self.record.state, self.record.launch
        if launch is None or launch.epoch != event.epoch:
            return
        if isinstance(state, Stopping):
            self._end_receiving()
            self._become(Stopped())
            return
        # Spark may retry a failed task: the retry exits at once, and to Spark the job has succeeded.
        died = bool(event.reason) or isinstance(state, Scheduled) or self.record.info.active
        if died and not (isinstance(state, Scheduled) and state.refused):
            self._fail(f"the receiver's task failed: {event.reason or 'its process died'}", event.error)
        self._end_receiving()
        if self.record.info.given_up:
            self._become(GivenUp())
        else:
            self._back_off(launch, state.candidates if isinstance(state, Scheduled) else ())

    def _back_off(self, launch: Launch, candidates: tuple[TaskLocation, ...] = ()) -> None:
        settings = self.record.settings
        relaunches = 0 if self._now_ms - launch.started_ms > _HEALTHY_MS else self.record.relaunches
        nominal_ms = min(settings.relaunch_delay_ms * 2.0 ** min(relaunches, 60), settings.max_relaunch_delay_ms)
        jitter = random.Random(f"{self.record.jitter_seed}/{self.record.info.streamId}/{launch.epoch}")
        delay_ms = nominal_ms * jitter.uniform(0.5, 1.0)
        self._set(relaunches=relaunches + 1)
        self._become(BackingOff(self._now_ms + delay_ms, candidates))
        self._do(lifecycle.WakeUp(delay_ms))
        reason = self.record.info.lastErrorMessage
        self._log("warning", "receiver ended, relaunch scheduled", delay_ms=round(delay_ms), reason=reason)

    # -- messages of the receiver --

    def _register(self, message: RegisterReceiver, location: TaskLocation | None) -> None:
        launch, refusal = self.record.launch, self._refusal(message, location)
        if refusal or launch is None:
            self._answer(Registered(accepted=False, reason=refusal))
        else:
            self._accept(message, location, evolve(launch, failure_counted=False, survived_error=""))

    def _refusal(self, message: RegisterReceiver, location: TaskLocation | None) -> str:
        """Why a registration is refused; empty when it is accepted."""
        state, launch = self.record.state, self.record.launch
        if isinstance(state, Stopping | Stopped) and message.epoch == self.record.epoch:
            return "the application is stopping"
        if launch is None or message.epoch != launch.epoch:
            return no_launch(message)
        if isinstance(state, GivenUp):
            return "the receiver is given up: it failed too often"
        if not isinstance(state, Scheduled) or (not state.refused and self._accepts(state, location)):
            return ""
        self._become(evolve(state, refused=True))
        self._log("warning", "receiver refused", reason="it runs on another executor than scheduled")
        return "the receiver was scheduled to another executor"

    def _accepts(self, state: Scheduled, location: TaskLocation | None) -> bool:
        executors = [each for each in state.candidates if each.executor_id]
        hosts = {each.host for each in state.candidates if not each.executor_id}
        if location is None or not executors or location in executors or location.host in hosts:
            self._set(refusals=0)
            return True
        self._set(refusals=self.record.refusals + 1)
        if self.record.refusals <= _MAX_REFUSALS:
            return False
        self._log("warning", "receiver accepted on another executor than scheduled", refusals=_MAX_REFUSALS)
        self._set(refusals=0)
        return True

    def _accept(self, message: RegisterReceiver, location: TaskLocation | None, launch: Launch) -> None:
        record, was_active = self.record, self.record.info.active
        host = location.host if location else ""
        block_location = BlockLocation(host, message.host, message.directory)
        self._become(evolve(record.state, launch=launch) if isinstance(record.state, Moving) else Active(launch))
        self._set(location=location, block_location=block_location, sent=record.desired.number)
        self._set_info(
            name=f"{message.receiver_type}-{message.stream_id}",
            active=True,
            location=host,
            executorId=location.executor_id if location else "",
        )
        self._log("info", "receiver registered", host=host)
        self._do(lifecycle.Connect(message, block_location))
        if not was_active:
            self._do(lifecycle.Post(ReceiverStarted(self.record.info)))
        desired = record.desired
        self._answer(Registered(accepted=True, rate=desired.rate, paused=desired.paused, number=desired.number))

    def _deregister(self, message: DeregisterReceiver, launch: Launch) -> None:
        state = self.record.state
        was_active, stops = self.record.info.active, isinstance(state, Stopping)
        if was_active:
            counts = {"flushed": message.flushed, "dropped": message.dropped}
            self._log("info", "receiver deregistered", reason=message.message, **counts)
            if not message.error:
                if not stops:
                    self._set_info(lastErrorMessage=message.message, lastError="")
            elif stops:
                if message.error != launch.survived_error:
                    self._note_error(message.message, message.error)
            else:
                self._fail(message.message, message.error)
            self._end_receiving()
        if self.record.info.given_up:
            if message.ended:
                self._drain(launch)
            elif was_active:
                # Its supervisor may be about to restart it.
                self._do(lifecycle.Send(launch.epoch, StopReceiver("given up"), urgent=True))
            self._become(GivenUp(None if message.ended else self.record.launch))
        elif message.ended and isinstance(state, Stopping):
            self._drain(launch)
            self._become(Stopped())
        elif message.ended and isinstance(state, Moving) and state.serves:
            self._drain(launch)
            self._back_off(launch)
        elif isinstance(self.record.state, Active):
            self._become(Restarting(self.record.state.launch))
        accepted = was_active or message.ended
        reason = "" if accepted else f"launch {message.epoch} of stream {message.stream_id} is not active"
        self._answer(Reply(accepted, reason))

    def _drain(self, launch: Launch) -> None:
        self._set(draining={**self.record.draining, launch.epoch: False})
        self._log("info", "receiver drained, blocks still served", host=self.record.block_location.host)

    def _report_error(self, message: ReportError) -> None:
        (*_, last_line) = message.error.strip().splitlines() or [""]
        self._log("warning", "receiver error", message=message.message, reason=last_line)
        # The receiver continues. If the same error ends it later, that is not reported a second time.
        self._set_launch(survived_error=message.error)
        self._note_error(message.message, message.error)
        self._answer(Reply())

    # -- what the receiver should do --

    def _desire(self, event: lifecycle.DesiredChange) -> None:
        desired = self.record.desired
        if (event.rate, event.paused) != (desired.rate, desired.paused):
            self._set(desired=DesiredState(desired.number + 1, event.rate, event.paused))
            self._send_desired()

    def _send_desired(self) -> None:
        """Send the desired state unless it was sent. A receiver that registers later learns it from the answer."""
        desired, launch = self.record.desired, self.record.launch
        receives = self.record.info.active and not isinstance(self.record.state, Stopping)
        if receives and launch is not None and self.record.sent != desired.number:
            self._set(sent=desired.number)
            self._do(lifecycle.Send(launch.epoch, UpdateRateLimit(desired.rate, desired.number, desired.paused)))

    def _move(self, serve_ms: int) -> None:
        state = self.record.state
        if isinstance(state, Active):
            self._become(Moving(state.launch, serves=serve_ms > 0))
            self._log("warning", "receiver moves to another executor", host=self.record.block_location.host)
            self._do(lifecycle.Send(state.launch.epoch, StopReceiver("moves to another executor", serve_ms)))

    def _stop(self, serve_ms: int) -> None:
        stop, state = StopReceiver("Stopped by driver", serve_ms), self.record.state
        match state:
            case Waiting() | BackingOff():
                self._become(Stopped())
            case Scheduled():
                # It has stored nothing, and may wait for a slot that never becomes free.
                self._become(Stopping(state.launch, None))
                self._do(lifecycle.CancelJob(state.launch.epoch))
            case Active() | Moving() | Restarting():
                self._become(Stopping(state.launch, stop))
                self._do(lifecycle.Send(state.launch.epoch, stop, urgent=True))
            case Stopping() | GivenUp() | Stopped():
                pass
        self._send_draining(stop)

    def _send_draining(self, stop: StopReceiver) -> None:
        """Have draining launches serve for as long as the message says; an earlier, longer time stays in force."""
        for epoch, released in self.record.draining.items():
            if not released:
                self._do(lifecycle.Send(epoch, stop, urgent=True))

    def _undelivered(self, event: lifecycle.Undelivered) -> None:
        message, state, launch = event.message, self.record.state, self.record.launch
        if isinstance(message, ReleaseReceiver) and event.epoch in self.record.draining:
            self._set(draining={**self.record.draining, event.epoch: False})
        if launch is None or launch.epoch != event.epoch:
            return
        if isinstance(message, UpdateRateLimit) and message.number == self.record.sent:
            self._set(sent=0)
        elif isinstance(message, StopReceiver) and isinstance(state, Stopping):
            self._become(evolve(state, sent=False))
        elif isinstance(message, StopReceiver) and isinstance(state, Moving):
            self._become(Active(launch) if self.record.info.active else Restarting(launch))

    def _tick(self, needed: frozenset[int]) -> None:
        self._send_desired()
        state = self.record.state
        if isinstance(state, Stopping) and state.stop is not None and not state.sent:
            self._become(evolve(state, sent=True))
            self._do(lifecycle.Send(state.launch.epoch, state.stop, urgent=True))
        if isinstance(state, Stopping | Stopped):
            return
        draining = self.record.draining
        for epoch, released in draining.items():
            if not released and epoch not in needed:
                # Not urgent: it must not overtake deletions.
                self._do(lifecycle.Send(epoch, ReleaseReceiver()))
        self._set(draining={epoch: released or epoch not in needed for epoch, released in draining.items()})
        if self.record.info.unhealthy and not self.record.info.given_up and not self._budget_is_spent:
            self._set_info(unhealthy=False)
            self._log("warning", "receiver healthy again")
        if isinstance(state, Scheduled):
            self._check_launch_timeout(state)

    def _check_launch_timeout(self, state: Scheduled) -> None:
        timeout_ms = self.record.settings.launch_timeout_ms
        if state.overdue or not 0 < timeout_ms <= self._now_ms - state.launch.started_ms:
            return
        message = (
            f"receiver {self.record.info.name} has not registered within {timeout_ms / 1000:g} s of its launch: "
            "is there a free slot for it?"
        )
        self._become(evolve(state, overdue=True))
        self._log("error", "receiver not registered in time, job cancelled", reason=message)
        self._fail(message)
        if self.record.info.given_up:
            self._become(GivenUp(self.record.launch))
        self._do(lifecycle.CancelJob(state.launch.epoch))

    # -- failures --

    def _fail(self, message: str, error: str = "") -> None:
        """Report and count a failure that ends the receiver: once per launch or registration."""
        launch = self.record.launch
        if launch is None or launch.failure_counted:
            return
        self._set_launch(failure_counted=True)
        if not error or error != launch.survived_error:
            self._note_error(message, error)
        settings, info = self.record.settings, self.record.info
        self._set(failures_ms=(*self.record.failures_ms, self._now_ms)[-(settings.max_restarts + 1) :])
        if not self._budget_is_spent or info.given_up:
            return
        often = (
            f"more than {settings.max_restarts} failures within {settings.restart_window_ms / 1000:g} s; "
            f"the last one: {message}"
        )
        if settings.on_receiver_failure == "restart":
            if not info.unhealthy:
                self._set_info(unhealthy=True)
                self._log("error", "receiver unhealthy", reason=often)
                self._note_error(f"receiver {info.name} is unhealthy, it is relaunched further: {often}")
            return
        self._set_info(unhealthy=True, given_up=True)
        self._log("error", "receiver given up", reason=often)
        given_up = f"receiver {info.name} is given up: {often}"
        self._note_error(given_up)
        if settings.on_receiver_failure == "fail-application":
            self._do(lifecycle.FailApplication(given_up))

    @property
    def _budget_is_spent(self) -> bool:
        failures_ms, settings = self.record.failures_ms, self.record.settings
        return len(failures_ms) > settings.max_restarts and self._now_ms - failures_ms[0] < settings.restart_window_ms

    def _note_error(self, message: str, error: str = "") -> None:
        past = (*self.record.info.recent_errors, PastError(self._wall_ms, message, error))[-_RECENT_ERRORS:]
        self._set_info(lastErrorMessage=message, lastError=error, lastErrorTime=self._wall_ms, recent_errors=past)
        self._do(lifecycle.Post(ReceiverError(self.record.info)))

    def _end_receiving(self) -> None:
        if self.record.info.active:
            self._set_info(active=False)
            self._do(lifecycle.Post(ReceiverStopped(self.record.info)))

    # -- the record --

    def _set(self, **changes: Any) -> None:
        self.record = evolve(self.record, **changes)

    def _set_info(self, **changes: Any) -> None:
        self.record = evolve(self.record, info=evolve(self.record.info, **changes))

    def _set_launch(self, **changes: Any) -> None:
        launch, state = self.record.launch, self.record.state
        if launch is not None and not isinstance(state, Waiting | BackingOff | Stopped):
            self._become(evolve(state, launch=evolve(launch, **changes)))

    def _become(self, state: State) -> None:
        self.record = evolve(self.record, state=state)

    def _answer(self, message: object) -> None:
        self._do(lifecycle.Answer(message))

    def _do(self, effect: lifecycle.Effect) -> None:
        self.effects.append(effect)

    def _log(self, level: str, event: str, **context: Any) -> None:
        self._do(lifecycle.Log(level, event, {"epoch": self.record.epoch, **context}))


def no_launch(message: RegisterReceiver | DeregisterReceiver | ReportError) -> str:
    """Why a message is refused: its launch is not the current one."""
    return f"stream {message.stream_id} has no launch {message.epoch}"
