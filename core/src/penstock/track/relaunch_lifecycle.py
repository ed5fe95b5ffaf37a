"""The life cycle of a receiver on the driver: ``step`` turns its record and an event into the next record and effects.

It decides on launches and relaunches, each a Spark task; restarts within a task are ``receive.receiver_lifecycle``.
Pure: no thread, no Spark, no clock. ``TrackedReceivers`` calls it on its loop and carries out the effects. It also
starts the job of a record that has become ``Scheduled``, and wakes up one that is ``BackingOff``.
"""

from __future__ import annotations

import math
from typing import Any

from attrs import evolve

from penstock import conf
from penstock.listen.events import PastError, ReceiverError, ReceiverStarted, ReceiverStopped
from penstock.receive import messages
from penstock.receive.recent_lines import MAX_LINES
from penstock.spark.cluster import TaskLocation
from penstock.track import receiver_tracking_info as lifecycle
from penstock.wire.json_codec import Reply

# Preferred locations do not bind Spark: after this many wrong executors in a row, any executor is accepted.
_MAX_REFUSALS = 2
_RECENT_ERRORS = 20
# Maximum time, after its restart delay, in which a receiver that has stopped registers again or its task ends, and in
# which the task of a refused one ends.
_RESTART_TIMEOUT_MS = 60_000
# The reason that a stop of the application gives to receivers.
_APPLICATION_STOPS = "Stopped by driver"


def step(
    record: lifecycle.ReceiverTrackingInfo, event: lifecycle.LifecycleEvent, now_ms: float, wall_ms: int
) -> tuple[lifecycle.ReceiverTrackingInfo, tuple[lifecycle.Effect, ...]]:
    """Return the record after an event, and the effects to carry out in this order.

    Delays and budgets use ``now_ms``, monotonic. Users see ``wall_ms``, milliseconds since 1970.
    """
    transition = _Transition(record, now_ms, wall_ms)
    transition.take(event)
    if record.is_active != transition.record.is_active:
        kind = ReceiverStopped if record.is_active else ReceiverStarted
        transition.effects.append(lifecycle.Post(kind(transition.record.info)))
    return transition.record, tuple(transition.effects)


class _Transition:
    """Computes one step: the record so far and the effects so far."""

    def __init__(self, record: lifecycle.ReceiverTrackingInfo, now_ms: float, wall_ms: int) -> None:
        self.record = record
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self.effects: list[lifecycle.Effect] = []

    def take(self, event: lifecycle.LifecycleEvent) -> None:
        state, launch = self.record.state, self.record.launch
        match event:
            case lifecycle.LaunchDue() | lifecycle.LaunchFailed():
                self._launch(event)
            case lifecycle.Registration():
                self._register(event.message, event.location)
            case messages.DeregisterReceiver() | messages.ReportError():
                if launch is None or event.epoch != launch.epoch:
                    self._do(lifecycle.Answer(Reply(accepted=False, reason=no_launch(event))))
                elif isinstance(event, messages.ReportError):
                    self._report_error(event)
                else:
                    self._deregister(event, launch)
            case lifecycle.StatusReported():
                if event.epoch == self.record.epoch:
                    source, times = event.source or self.record.source, event.times or self.record.times
                    self._set(source=source, times=times)
            case lifecycle.JobEnded():
                self._job_ended(event)
            case lifecycle.Undelivered():
                self._undelivered(event)
            case lifecycle.Move() if isinstance(state, lifecycle.Active):
                self._set(state=lifecycle.Moving(evolve(state.launch, serve_ms=event.serve_ms)))
                self._log("warning", "receiver moves to another executor", host=self.record.block_location.host)
                stop = messages.StopReceiver("moves to another executor", event.serve_ms)
                self._do(lifecycle.Send(state.launch.epoch, stop))
            case lifecycle.RateLimit():
                self._set_desired(event.rate)
            case lifecycle.Pause():
                others = self.record.pause_reasons - {event.reason}
                self._set(pause_reasons=others | {event.reason} if event.applies else others)
                self._set_desired(self.record.desired.rate)
            case lifecycle.ExecutorLost():
                self._executor_lost()
            case lifecycle.ProblemFound():
                blocks, records = self.record.lost_blocks + event.lost_blocks, self.record.lost_records
                self._set(lost_blocks=blocks, lost_records=records + event.lost_records)
                self._note_error(event.message)
            case lifecycle.Tick():
                self._tick(event.needed)
            case lifecycle.Stop():
                self._stop(event.serve_ms)

    # -- launches --

    def _launch(self, event: lifecycle.LaunchDue | lifecycle.LaunchFailed) -> None:
        if not isinstance(self.record.state, lifecycle.Waiting | lifecycle.BackingOff):
            return
        candidates = event.candidates if isinstance(event, lifecycle.LaunchDue) else self.record.candidates
        launch = lifecycle.Launch(self.record.epoch + 1, self._now_ms)
        self._set(epoch=launch.epoch, source=None, times=None, state=lifecycle.Scheduled(launch, candidates))
        if isinstance(event, lifecycle.LaunchFailed):
            self._job_ended(lifecycle.JobEnded(launch.epoch, event.reason, event.error))
            return
        self._set(preferred=event.preferred)
        preferred = {"preferred": [candidate.preference for candidate in candidates]} if candidates else {}
        self._log("info", "receiver launched", **preferred)

    def _job_ended(self, event: lifecycle.JobEnded) -> None:
        ended = {event.epoch}
        self._set(draining=self.record.draining - ended, released=self.record.released - ended)
        state, launch = self.record.state, self.record.launch
        if launch is None or launch.epoch != event.epoch:
            return
        if isinstance(state, lifecycle.Stopping | lifecycle.Ending):
            self._set(state=lifecycle.Stopped())
            return
        if isinstance(state, lifecycle.Restarting):
            failed = bool(event.reason) and not state.error
        else:
            # Spark may retry a failed task. The retry exits at once, so Spark reports a successful job.
            failed = isinstance(state, lifecycle.Scheduled | lifecycle.Active | lifecycle.Moving)
        if failed:
            self._fail(launch, f"the receiver's task failed: {event.reason or 'its process died'}", event.error)
        if self.record.is_given_up:
            self._set(state=lifecycle.GivenUp())
        else:
            self._schedule_relaunch(launch, self.record.candidates)

    def _schedule_relaunch(self, launch: lifecycle.Launch, candidates: tuple[TaskLocation, ...] = ()) -> None:
        policy, seed = self.record.policy, f"{self.record.jitter_seed}/{self.record.stream_id}/{launch.epoch}"
        relaunches = policy.relaunches_in_a_row(self.record.relaunches, self._now_ms - launch.started_ms)
        delay_ms = policy.back_off_ms(relaunches, seed)
        self._set(relaunches=relaunches + 1, state=lifecycle.BackingOff(self._now_ms + delay_ms, candidates))
        reason, executor = self.record.last_end.message, self.record.executor
        self._log("warning", "receiver ended, relaunch scheduled", delay_ms=round(delay_ms), reason=reason, **executor)

    # -- messages of the receiver --

    def _register(self, message: messages.RegisterReceiver, location: TaskLocation | None) -> None:
        launch, refusal = self.record.launch, self._refusal(message, location)
        if refusal or launch is None:
            self._do(lifecycle.Answer(messages.Registered(accepted=False, reason=refusal)))
            return
        host, desired = location.host if location else "", self.record.desired
        state = lifecycle.Moving if isinstance(self.record.state, lifecycle.Moving) else lifecycle.Active
        self._set(
            state=state(evolve(launch, survived_error="")),
            location=location,
            block_location=lifecycle.BlockLocation(host, message.host, message.directory),
            sent=desired.number,
            refusals=0,
        )
        self._log("info", "receiver registered", **self.record.executor)
        self._do(lifecycle.Connect(message), lifecycle.Answer(messages.Registered(accepted=True, desired=desired)))

    def _refusal(self, message: messages.RegisterReceiver, location: TaskLocation | None) -> str:
        state, launch = self.record.state, self.record.launch
        stops = isinstance(state, lifecycle.Stopping | lifecycle.Ending | lifecycle.Stopped)
        if stops and message.epoch == self.record.epoch:
            return "the application is stopping"
        if launch is None or message.epoch != launch.epoch:
            return no_launch(message)
        if isinstance(state, lifecycle.GivenUp):
            return "the receiver is given up: it failed too often"
        if isinstance(state, lifecycle.Scheduled | lifecycle.Overdue) and not self._accepts(state, location):
            self._set(state=lifecycle.Refused(launch, state.candidates, self._now_ms + _RESTART_TIMEOUT_MS))
            self._log("warning", "receiver refused", reason="it runs on another executor than scheduled")
        is_refused = isinstance(self.record.state, lifecycle.Refused)
        return "the receiver was scheduled to another executor" if is_refused else ""

    def _accepts(self, state: lifecycle.Scheduled | lifecycle.Overdue, location: TaskLocation | None) -> bool:
        executors = [candidate for candidate in state.candidates if candidate.executor_id]
        hosts = {candidate.host for candidate in state.candidates if not candidate.executor_id}
        if location is None or not executors or location in executors or location.host in hosts:
            return True
        self._set(refusals=self.record.refusals + 1)
        if self.record.refusals <= _MAX_REFUSALS:
            return False
        self._log("warning", "receiver accepted on another executor than scheduled", refusals=_MAX_REFUSALS)
        return True

    def _deregister(self, message: messages.DeregisterReceiver, launch: lifecycle.Launch) -> None:
        was_active, stops = self.record.is_active, isinstance(self.record.state, lifecycle.Stopping | lifecycle.Ending)
        if was_active:
            counts = {"flushed": message.flushed, "dropped": message.dropped}
            self._set_log_lines(message)
            self._log("info", "receiver deregistered", reason=message.message, **counts)
            if stops and message.error and message.error != launch.survived_error:
                self._note_error(message.message, message.error)
            elif message.error and not stops:
                self._fail(launch, message.message, message.error)
            elif not stops:
                self._set(last_end=evolve(self.record.last_end, message=message.message, error=""))
        accepted, state = was_active or message.ended, self.record.state
        gave_up = isinstance(state, lifecycle.GivenUp)
        if message.ended and (stops or launch.serve_ms or gave_up):
            self._set(draining=self.record.draining | {launch.epoch})
            self._log("info", "receiver drained, blocks still served", host=self.record.block_location.host)
            if stops or gave_up:
                self._set(state=lifecycle.Stopped() if stops else lifecycle.GivenUp())
            else:
                self._schedule_relaunch(launch)
        elif isinstance(state, lifecycle.Stopping):
            self._set(state=lifecycle.Ending(launch, state.undelivered))
        elif isinstance(state, lifecycle.Active | lifecycle.Moving):
            deadline_ms = self._now_ms + message.restart_delay_ms + _RESTART_TIMEOUT_MS
            self._set(state=lifecycle.Restarting(launch, message.error, deadline_ms))
        elif gave_up and was_active:
            # Its supervisor may be about to restart it.
            self._do(lifecycle.Send(launch.epoch, messages.StopReceiver("given up"), urgent=True))
        reason = "" if accepted else f"launch {message.epoch} of stream {message.stream_id} is not active"
        self._do(lifecycle.Answer(Reply(accepted, reason)))

    def _report_error(self, message: messages.ReportError) -> None:
        (*_, last_line) = message.error.strip().splitlines() or [""]
        self._log("warning", "receiver error", message=message.message, reason=last_line, **self.record.executor)
        self._set_log_lines(message)
        # The receiver continues. If the same error ends it later, the error is not reported again.
        self._set_launch(survived_error=message.error)
        self._note_error(message.message, message.error)
        self._do(lifecycle.Answer(Reply()))

    # -- the desired state --

    def _set_desired(self, rate: float | None) -> None:
        desired, paused = self.record.desired, bool(self.record.pause_reasons)
        if (rate, paused) != (desired.rate, desired.paused):
            self._set(desired=messages.UpdateRateLimit(rate, desired.number + 1, paused))
            self._send_desired()

    def _send_desired(self) -> None:
        """Send the desired state unless it was sent. A receiver that registers later learns it from the answer."""
        desired, state = self.record.desired, self.record.state
        if isinstance(state, lifecycle.Active | lifecycle.Moving) and self.record.sent != desired.number:
            self._set(sent=desired.number)
            self._do(lifecycle.Send(state.launch.epoch, desired))

    def _stop(self, serve_ms: int) -> None:
        stop, state = messages.StopReceiver(_APPLICATION_STOPS, serve_ms), self.record.state
        match state:
            case lifecycle.Waiting() | lifecycle.BackingOff():
                self._set(state=lifecycle.Stopped())
            case lifecycle.Scheduled() | lifecycle.Overdue() | lifecycle.Refused():
                # The launch has stored nothing, and may wait for a slot that never becomes free.
                self._set(state=lifecycle.Ending(state.launch))
                self._do(lifecycle.CancelJob(state.launch.epoch))
            case lifecycle.Active() | lifecycle.Moving() | lifecycle.Restarting():
                stopping = lifecycle.Stopping if self.record.is_active else lifecycle.Ending
                self._set(state=stopping(state.launch))
                self._do(lifecycle.Send(state.launch.epoch, stop, urgent=True))
            case lifecycle.Stopping() | lifecycle.Ending() | lifecycle.GivenUp() | lifecycle.Stopped():
                pass
        # Draining launches serve for the time in the message; an earlier, longer time stays in force.
        for epoch in sorted(self.record.draining):
            self._do(lifecycle.Send(epoch, stop, urgent=True))

    def _undelivered(self, event: lifecycle.Undelivered) -> None:
        message, state, launch = event.message, self.record.state, self.record.launch
        if isinstance(message, messages.ReleaseReceiver) and event.epoch in self.record.released:
            epochs = {event.epoch}
            self._set(draining=self.record.draining | epochs, released=self.record.released - epochs)
        if launch is None or launch.epoch != event.epoch:
            return
        if isinstance(message, messages.UpdateRateLimit) and message.number == self.record.sent:
            self._set(sent=0)
        elif isinstance(message, messages.StopReceiver) and isinstance(state, lifecycle.Stopping | lifecycle.Ending):
            if message.message == _APPLICATION_STOPS:
                self._set(state=evolve(state, undelivered=message))
        elif isinstance(message, messages.StopReceiver):
            self._set_launch(serve_ms=0)
            if isinstance(self.record.state, lifecycle.Moving):
                self._set(state=lifecycle.Active(self.record.state.launch))

    def _tick(self, needed: frozenset[int]) -> None:
        self._send_desired()
        state = self.record.state
        if isinstance(state, lifecycle.Stopping | lifecycle.Ending) and state.undelivered is not None:
            self._set(state=evolve(state, undelivered=None))
            self._do(lifecycle.Send(state.launch.epoch, state.undelivered, urgent=True))
        if isinstance(state, lifecycle.Stopping | lifecycle.Ending | lifecycle.Stopped):
            return
        unneeded = self.record.draining - needed
        for epoch in sorted(unneeded):
            # Not urgent: it must not overtake deletions.
            self._do(lifecycle.Send(epoch, messages.ReleaseReceiver()))
        self._set(draining=self.record.draining - unneeded, released=self.record.released | unneeded)
        if self.record.unhealthy and not self.record.policy.is_exceeded(self.record.failures_ms, self._now_ms):
            self._set(unhealthy=False)
            self._log("warning", "receiver healthy again")
        if isinstance(state, lifecycle.Scheduled):
            self._check_launch_timeout(state)
        if isinstance(state, lifecycle.Restarting | lifecycle.Refused) and self._now_ms >= state.deadline_ms:
            message = (
                f"the task of receiver {self.record.name} hangs: it has neither registered again nor ended within "
                f"{_RESTART_TIMEOUT_MS / 1000:g} s"
            )
            self._set(state=evolve(state, deadline_ms=math.inf))
            self._log("error", "stopped receiver's task hangs, job cancelled", reason=message)
            self._note_error(message)
            self._do(lifecycle.CancelJob(state.launch.epoch))

    def _check_launch_timeout(self, state: lifecycle.Scheduled) -> None:
        timeout_ms = self.record.policy.settings.launch_timeout_ms
        if not 0 < timeout_ms <= self._now_ms - state.launch.started_ms:
            return
        message = (
            f"receiver {self.record.name} has not registered within {timeout_ms / 1000:g} s of its launch "
            f"({conf.key('launch_timeout_ms')}): is there a free slot for it? Each receiver occupies a core"
        )
        self._set(state=lifecycle.Overdue(state.launch, state.candidates))
        self._log("error", "receiver not registered in time, job cancelled", reason=message)
        self._fail(state.launch, message)
        self._do(lifecycle.CancelJob(state.launch.epoch))

    def _executor_lost(self) -> None:
        """Cancel the job of a registered launch: Spark ends it only after a retry, which may wait for a slot."""
        state, location = self.record.state, self.record.location
        if not isinstance(state, lifecycle.RegisteredOnce) or state.launch.executor_lost:
            return
        place = f"{location.executor_id} on {location.host}" if location else "of the receiver"
        message = f"the executor {place} is lost"
        self._log("warning", "executor lost, receiver job cancelled", reason=message)
        launch = evolve(state.launch, executor_lost=True)
        self._set(state=evolve(state, launch=launch))
        if isinstance(state, lifecycle.Active | lifecycle.Moving):
            self._set(state=lifecycle.Restarting(launch, message))
            self._fail(launch, message)
        elif isinstance(state, lifecycle.Stopping):
            self._set(state=lifecycle.Ending(launch))
        self._do(lifecycle.CancelJob(launch.epoch))

    # -- failures --

    def _fail(self, launch: lifecycle.Launch, message: str, error: str = "") -> None:
        if not error or error != launch.survived_error:
            self._note_error(message, error)
        policy, name = self.record.policy, self.record.name
        self._set(failures_ms=policy.with_failure(self.record.failures_ms, self._now_ms))
        if not policy.is_exceeded(self.record.failures_ms, self._now_ms):
            return
        often = policy.exceeded_message(self.record.last_end.message)
        if policy.settings.on_receiver_failure == "restart":
            if not self.record.unhealthy:
                self._set(unhealthy=True)
                self._log("error", "receiver unhealthy", reason=often)
                self._note_error(f"receiver {name} is unhealthy, it is relaunched further: {often}")
            return
        self._set(state=lifecycle.GivenUp(launch))
        self._log("error", "receiver given up", reason=often)
        given_up = f"receiver {name} is given up: {often}"
        self._note_error(given_up)
        if policy.settings.on_receiver_failure == "fail-application":
            self._do(lifecycle.FailApplication(given_up))

    def _note_error(self, message: str, error: str = "") -> None:
        end = PastError(self._wall_ms, message, error)
        self._set(last_end=end, recent_errors=(*self.record.recent_errors, end)[-_RECENT_ERRORS:])
        self._do(lifecycle.Post(ReceiverError(self.record.info)))

    # -- the record --

    def _set(self, **changes: Any) -> None:
        self.record = evolve(self.record, **changes)

    def _set_log_lines(self, message: messages.ReportError | messages.DeregisterReceiver) -> None:
        if message.log_lines:
            self._set(last_log_lines=tuple(message.log_lines[-MAX_LINES:]))

    def _set_launch(self, **changes: Any) -> None:
        launch, state = self.record.launch, self.record.state
        if launch is not None and not isinstance(state, lifecycle.Waiting | lifecycle.BackingOff | lifecycle.Stopped):
            self._set(state=evolve(state, launch=evolve(launch, **changes)))

    def _do(self, *effects: lifecycle.Effect) -> None:
        self.effects += effects

    def _log(self, level: str, event: str, **context: Any) -> None:
        self._do(lifecycle.Log(level, event, {"epoch": self.record.epoch, **context}))


def no_launch(
    message: messages.RegisterReceiver | messages.DeregisterReceiver | messages.ReportError | messages.AddBlocks,
) -> str:
    """Message for a launch that is not the current one."""
    return f"launch {message.epoch} of stream {message.stream_id} was replaced, or has ended"
