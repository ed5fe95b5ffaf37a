"""The life cycle of a running receiver: ``step`` turns its record and an event into the next record and its effects.

Pure: no thread, no Spark, no clock. Order of a stop: ``onStop``, flush, ``on_drained``, deregister.
"""

from __future__ import annotations

import math
import random
from typing import Any

from attrs import evolve

from penstock import conf
from penstock.errors import PenstockError, ReceiverStoppedError, ReceiverStuckError, summary_of, text_of
from penstock.rate.rate_limits import lowest
from penstock.receive import lifecycle_events as events
from penstock.receive.lifecycle_events import Effect, Event
from penstock.receive.messages import UpdateRateLimit
from penstock.receive.running_receiver import (
    AwaitingRestart,
    Created,
    Deregistering,
    Draining,
    Flushing,
    Interrupted,
    Receiving,
    Registering,
    Restart,
    RunningReceiver,
    Starting,
    State,
    Stop,
    Stopping,
    Terminated,
)
from penstock.runtime.retry import LONGEST_DELAY_MS, delay_ms_after


def step(receiver: RunningReceiver, event: Event, now_ms: float) -> tuple[RunningReceiver, tuple[Effect, ...]]:
    """Return the record after an event, and the effects to carry out in this order; ``now_ms`` is monotonic."""
    transition = _Transition(receiver, now_ms)
    transition.take(event)
    return transition.receiver, tuple(transition.effects)


class _Transition:
    def __init__(self, receiver: RunningReceiver, now_ms: float) -> None:
        self.receiver = receiver
        self.effects: list[Effect] = []
        self._now_ms = now_ms

    def take(self, event: Event) -> None:
        state = self.receiver.state
        match event:
            case events.StartRequested() if isinstance(state, Created):
                self._become(Registering(), events.Register())
            case events.RegistrationAnswered() if isinstance(state, Registering):
                self._registered(state, event)
            case events.CallReturned() if isinstance(state, Starting | Interrupted):
                self._started(state, event.error)
            case events.RestartRequested():
                self._restart(event)
            case events.StopRequested():
                self._stop(Stop(event.message, event.error, _as_error(event.error)))
                # Callers of a stop must not wait for it.
                if self.effects:
                    self.effects = [events.OnThread("receiver stop", tuple(self.effects))]
            case events.ThreadFailed():
                self._thread_failed(event)
            case events.CallReturned() if isinstance(state, Stopping):
                self._stopped(state, event)
            case events.CallReturned() if isinstance(state, Draining):
                self._drained(state, event)
            case events.Flushed() if isinstance(state, Flushing):
                self._flushed(state, event)
            case events.Deregistered() if isinstance(state, Deregistering):
                self._deregistered(state, event)
            case events.RestartDelayOver() if isinstance(state, AwaitingRestart):
                self._become(Registering(), events.Register())
            case events.Tick():
                self._tick()
            case UpdateRateLimit():
                if self._apply_desired(event):
                    self._do(events.NotifyRate())
            case events.DiskWait():
                self._disk(event.error)
            case events.BlocksAccepted():
                self._set(stored_records=self.receiver.stored_records + event.records, restarts=0)
            case events.Report():
                self._do(event)

    # -- start --

    def _registered(self, state: Registering, event: events.RegistrationAnswered) -> None:
        notifies_rate = event.desired is not None and self._apply_desired(event.desired)
        if event.error is None:
            self._set(is_registered=True)
        if state.then is not None:
            self._flush(state.then)
        elif event.error is not None:
            self._flush(self._start_failed(event.error))
        else:
            self._become(Starting(self._now_ms, self.receiver.stored_records, notifies_rate), events.Call("onStart"))

    def _started(self, state: Starting | Interrupted, error: BaseException | None) -> None:
        if isinstance(state, Interrupted):
            if error is not None:
                self._log("debug", "onStart ended by stop", reason=text_of(error))
            self._stop_run(state.then)
        elif error is None:
            self._become(Receiving())
            if state.notifies_rate:
                self._do(events.NotifyRate())
        else:
            self._set(start_error=error)
            advice = "call restart() in onStart to try again in this process, reportError() to continue"
            self._log("warning", "onStart failed", reason=summary_of(error), advice=advice)
            self._stop_run(self._start_failed(error))

    def _start_failed(self, error: BaseException) -> Stop:
        return Stop(f"Error starting receiver {self.receiver.stream_id}: {summary_of(error)}", error, error)

    def _tick(self) -> None:
        """Notice an ``onStart`` that exceeds a timeout. Only a stop cannot wait for one that stores."""
        state = self.receiver.state
        settings = self.receiver.settings
        start = state.start if isinstance(state, Interrupted) else state
        if not isinstance(start, Starting):
            return
        if isinstance(state, Interrupted) and self._now_ms >= state.deadline_ms:
            what = _not_returned("onStart", settings.stop_timeout_ms, after_stop=True)
            self._abandon(f"{what}; it must only start what receives")
        elif settings.start_timeout_ms and self._now_ms - start.began_ms >= settings.start_timeout_ms:
            message = f"{_not_returned('onStart', settings.start_timeout_ms)}; it must only start what receives"
            if self.receiver.stored_records == start.stored_before:
                self._abandon(message)
            elif state is start and not start.is_overdue:
                # The receiver stores within onStart. That is wrong, but no reason to lose its records.
                self._become(evolve(start, is_overdue=True))
                message = f"{message}: derive from ThreadReceiver, or start a thread"
                self._do(events.OnThread("receiver watchdog", (events.Report(message),)))

    def _abandon(self, message: str) -> None:
        """End without ``onStop``: a thread is still in ``onStart``."""
        error = ReceiverStuckError(message)
        self._become(Flushing(Stop(message, error, error), is_final=True, calls_on_drained=False))
        self._do(events.OnThread("receiver watchdog", (events.Flush(is_final=True),)))

    # -- restart and stop --

    def _restart(self, event: events.RestartRequested) -> None:
        state = self.receiver.state
        if not isinstance(state, Starting | Receiving):
            # A restart or stop is under way, or onStart has not run since the last one.
            return
        delay_ms = event.delay_ms
        if delay_ms is None:
            receiver, first_ms = self.receiver, self.receiver.settings.receiver_restart_delay_ms
            jitter = random.Random(f"{receiver.jitter_seed}/{receiver.stream_id}/{receiver.restarts}")
            delay_ms = delay_ms_after(receiver.restarts, first_ms, max(first_ms, LONGEST_DELAY_MS), jitter)
            self._set(restarts=receiver.restarts + 1)
        restart = Restart(event.message, event.error, delay_ms)
        if isinstance(state, Starting):
            self._become(Interrupted(restart, state))
        else:
            self._stop_run(restart)

    def _thread_failed(self, event: events.ThreadFailed) -> None:
        if self.receiver.is_stopped or isinstance(event.error, ReceiverStoppedError):
            self._log("debug", "thread ended by stop", thread=event.thread, reason=text_of(event.error))
        else:
            message = f"Error on thread {event.thread}: {summary_of(event.error)}"
            self._restart(events.RestartRequested(message, event.error))

    def _stop(self, stop: Stop) -> None:
        if self.receiver.is_ending:
            return
        match state := self.receiver.state:
            case Created() | AwaitingRestart():
                # onStop is not called, or not called again.
                self._flush(stop)
            case Receiving():
                self._stop_run(stop)
            case Starting() | Interrupted():
                start = state.start if isinstance(state, Interrupted) else state
                timeout_ms = self.receiver.settings.stop_timeout_ms or math.inf
                self._become(Interrupted(stop, start, self._now_ms + timeout_ms))
                if isinstance(state, Interrupted) and state.then.error is not None:
                    self._do(events.Report(state.then.message, state.then.error))
                if math.isfinite(timeout_ms):
                    self._do(events.AwaitDeadline(timeout_ms))
            case Registering() | Stopping() | Flushing() | Draining() | Deregistering():
                # A restart is ending the run; the stop replaces the restart.
                self._become(evolve(state, then=stop))

    def _stop_run(self, then: Restart | Stop) -> None:
        """Call ``onStop``. A restart does so on a thread of its own, because the caller must not wait for it."""
        self._become(Stopping(then))
        if isinstance(then, Stop):
            self._do(events.Call("onStop"))
        else:
            reports = (events.Report(then.message, then.error),) if then.error is not None else ()
            self._do(events.OnThread("receiver restart", (*reports, events.Call("onStop"))))

    def _stopped(self, state: Stopping, event: events.CallReturned) -> None:
        then = state.then
        if event.in_time:
            if event.error is not None:
                self._do(events.Report("onStop failed", event.error))
            self._flush(then, calls_on_drained=True)
            return
        what = _not_returned("onStop", self.receiver.settings.stop_timeout_ms)
        stuck = ReceiverStuckError(f"{what}: does it wake what receives, and that end?")
        self._do(events.Report(str(stuck), stuck))
        # Threads of the receiver may still receive. Failing the task ends the worker process and with it these threads.
        if isinstance(then, Restart):
            self._flush(Stop(str(stuck), stuck, stuck))
        else:
            self._flush(evolve(then, task_error=then.task_error or stuck))

    def _flush(self, then: Restart | Stop, *, calls_on_drained: bool = False) -> None:
        is_final = isinstance(then, Stop)
        self._become(Flushing(then, is_final, calls_on_drained), events.Flush(is_final))

    def _flushed(self, state: Flushing, event: events.Flushed) -> None:
        if isinstance(state.then, Stop) and not state.is_final:
            # The stop came during the flush of a restart.
            self._flush(state.then, calls_on_drained=state.calls_on_drained)
        elif state.calls_on_drained:
            self._become(Draining(state.then, state.is_final, event.flushed, event.dropped), events.Call("on_drained"))
        else:
            self._deregister(state.then, event.flushed, event.dropped)

    def _drained(self, state: Draining, event: events.CallReturned) -> None:
        if not event.in_time:
            what = _not_returned("on_drained", self.receiver.settings.stop_timeout_ms)
            stuck = ReceiverStuckError(f"{what}: it must return promptly")
            self._do(events.Report(str(stuck), stuck))
        elif event.error is not None:
            self._do(events.Report("on_drained failed", event.error))
        if isinstance(state.then, Stop) and not state.is_final:
            self._flush(state.then)
        else:
            self._deregister(state.then, state.flushed, state.dropped)

    def _deregister(self, then: Restart | Stop, flushed: int, dropped: int) -> None:
        if isinstance(then, Restart):
            message = f"Restarting receiver with delay {then.delay_ms:.0f} ms: {then.message}"
            deregister = events.Deregister(message, then.error, restart_delay_ms=then.delay_ms)
            self._become(Deregistering(then, is_final=False), deregister)
            return
        message = with_error(then.message, then.error)
        if not self.receiver.is_registered:
            # Only this report reaches the user, because the driver does not know the receiver.
            self._log("warning", "receiver stopped before its start", reason=message)
            self._become(Terminated(then.task_error))
            return
        counts = {"stored": self.receiver.stored_records, "flushed": flushed, "dropped": dropped}
        self._log("info", "receiver stopped", reason=message, **counts)
        if dropped:
            message = f"{message} ({dropped} buffered records could not be stored and are lost)"
        self._become(Deregistering(then, is_final=True))
        self._do(events.Deregister(message, then.error, flushed, dropped, ended=True))

    def _deregistered(self, state: Deregistering, event: events.Deregistered) -> None:
        if isinstance(state.then, Restart):
            self._become(AwaitingRestart(), events.AwaitRestart(state.then.delay_ms))
        elif state.is_final:
            self._become(Terminated(state.then.task_error, event.is_delivered))
        else:
            self._flush(state.then)

    # -- rate and pause --

    def _apply_desired(self, desired: UpdateRateLimit) -> bool:
        """Apply a desired state unless it is outdated; return whether the rate changed."""
        if desired.number < self.receiver.desired_number:
            return False
        self._set(desired_number=desired.number)
        self._pause("driver", is_paused_by_driver=desired.paused)
        rate = lowest(desired.rate, self.receiver.settings.max_rate_per_s)
        # Zero, a negative number and NaN leave the rate unchanged.
        if rate == self.receiver.rate or (desired.rate is not None and not desired.rate > 0):
            return False
        self._set(rate=rate)
        return True

    def _disk(self, error: BaseException | None) -> None:
        before = self.receiver.disk_waits
        self._pause("disk full", disk_waits=before + (1 if error is not None else -1))
        if error is not None and not before:
            message = "the disk is full: the receiver pauses until there is room"
            self._do(events.OnThread("receiver disk", (events.Report(message, error),)))
        elif not self.receiver.disk_waits:
            self._log("warning", "disk space available again")

    def _pause(self, reason: str, **changes: Any) -> None:
        was_paused = self.receiver.is_paused
        self._set(**changes)
        if self.receiver.is_paused != was_paused:
            self._log("info", "receiver resumed" if was_paused else "receiver paused", reason=reason)

    # -- the record --

    def _set(self, **changes: Any) -> None:
        self.receiver = evolve(self.receiver, **changes)

    def _become(self, state: State, *effects: Effect) -> None:
        self._set(state=state)
        self._do(*effects)

    def _do(self, *effects: Effect) -> None:
        self.effects += effects

    def _log(self, level: str, event: str, **context: Any) -> None:
        self._do(events.Log(level, event, context))


def _not_returned(name: str, timeout_ms: float, *, after_stop: bool = False) -> str:
    key = conf.key("start_timeout_ms" if name == "onStart" and not after_stop else "stop_timeout_ms")
    return f"{name} has not returned for {timeout_ms / 1000:g} s{' after a stop' * after_stop} ({key})"


def with_error(message: str, error: object) -> str:
    """A message that names the type and text of an error, unless it contains them."""
    if error is None or type(error).__name__ in message:
        return message
    if not isinstance(error, BaseException):
        return message if text_of(error) in message else f"{message} - {text_of(error)}"
    if (text := text_of(error)) and text in message:
        # Penstock's own errors are sentences.
        return message if isinstance(error, PenstockError) else f"{message} ({type(error).__name__})"
    return f"{message} - {summary_of(error)}"


def _as_error(error: object) -> BaseException | None:
    """The exception for an error value of any type."""
    return error if error is None or isinstance(error, BaseException) else ReceiverStoppedError(text_of(error))
