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
from penstock.receive import running_receiver as lifecycle
from penstock.receive.messages import UpdateRateLimit
from penstock.receive.rate_limiter import lowest
from penstock.receive.running_receiver import Effect, Event, Restart, RunningReceiver, State, Stop
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
            case lifecycle.StartRequested() if isinstance(state, lifecycle.Created):
                self._become(lifecycle.Registering(), lifecycle.Register())
            case lifecycle.RegistrationAnswered() if isinstance(state, lifecycle.Registering):
                self._registered(state, event)
            case lifecycle.CallReturned() if isinstance(state, lifecycle.Starting | lifecycle.Interrupted):
                self._started(state, event.error)
            case lifecycle.RestartRequested():
                self._restart(event)
            case lifecycle.StopRequested():
                is_exception = event.error is None or isinstance(event.error, BaseException)
                error = event.error if is_exception else ReceiverStoppedError(text_of(event.error))
                self._stop(Stop(event.message, event.error, error))
                # Callers of a stop must not wait for it.
                if self.effects:
                    self.effects = [lifecycle.OnThread("receiver stop", tuple(self.effects))]
            case lifecycle.ThreadFailed():
                self._thread_failed(event)
            case lifecycle.CallReturned() if isinstance(state, lifecycle.Stopping):
                self._stopped(state, event)
            case lifecycle.CallReturned() if isinstance(state, lifecycle.Draining):
                self._drained(state, event)
            case lifecycle.Flushed() if isinstance(state, lifecycle.Flushing):
                self._flushed(state, event)
            case lifecycle.Deregistered() if isinstance(state, lifecycle.Deregistering):
                self._deregistered(state, event)
            case lifecycle.RestartDelayOver() if isinstance(state, lifecycle.AwaitingRestart):
                self._become(lifecycle.Registering(), lifecycle.Register())
            case lifecycle.Tick():
                self._tick()
            case UpdateRateLimit():
                if self._apply_desired(event):
                    self._do(lifecycle.NotifyRate())
            case lifecycle.DiskWait():
                self._disk(event.error)
            case lifecycle.BlocksAccepted():
                self._set(stored_records=self.receiver.stored_records + event.records, restarts=0)
            case lifecycle.Report():
                self._do(event)

    # -- start --

    def _registered(self, state: lifecycle.Registering, event: lifecycle.RegistrationAnswered) -> None:
        notifies_rate = event.desired is not None and self._apply_desired(event.desired)
        if event.error is None:
            self._set(is_registered=True)
        if state.then is not None:
            self._flush(state.then)
        elif event.error is not None:
            self._flush(self._start_failed(event.error))
        else:
            self._become(
                lifecycle.Starting(self._now_ms, self.receiver.stored_records, notifies_rate), lifecycle.Call("onStart")
            )

    def _started(self, state: lifecycle.Starting | lifecycle.Interrupted, error: BaseException | None) -> None:
        if isinstance(state, lifecycle.Interrupted):
            if error is not None:
                self._log("debug", "onStart ended by stop", reason=text_of(error))
            self._stop_run(state.then)
        elif error is None:
            self._become(lifecycle.Receiving())
            if state.notifies_rate:
                self._do(lifecycle.NotifyRate())
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
        start = state.start if isinstance(state, lifecycle.Interrupted) else state
        if not isinstance(start, lifecycle.Starting):
            return
        if isinstance(state, lifecycle.Interrupted) and self._now_ms >= state.deadline_ms:
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
                self._do(lifecycle.OnThread("receiver watchdog", (lifecycle.Report(message),)))

    def _abandon(self, message: str) -> None:
        """End without ``onStop``: a thread is still in ``onStart``."""
        error = ReceiverStuckError(message)
        self._become(lifecycle.Flushing(Stop(message, error, error), is_final=True, calls_on_drained=False))
        self._do(lifecycle.OnThread("receiver watchdog", (lifecycle.Flush(is_final=True),)))

    # -- restart and stop --

    def _restart(self, event: lifecycle.RestartRequested) -> None:
        state = self.receiver.state
        if not isinstance(state, lifecycle.Starting | lifecycle.Receiving):
            # A restart or stop is under way, or onStart has not run since the last one.
            return
        delay_ms = event.delay_ms
        if delay_ms is None:
            receiver, first_ms = self.receiver, self.receiver.settings.receiver_restart_delay_ms
            jitter = random.Random(f"{receiver.jitter_seed}/{receiver.stream_id}/{receiver.restarts}")
            delay_ms = delay_ms_after(receiver.restarts, first_ms, max(first_ms, LONGEST_DELAY_MS), jitter)
            self._set(restarts=receiver.restarts + 1)
        restart = Restart(event.message, event.error, delay_ms)
        if isinstance(state, lifecycle.Starting):
            self._become(lifecycle.Interrupted(restart, state))
        else:
            self._stop_run(restart)

    def _thread_failed(self, event: lifecycle.ThreadFailed) -> None:
        if self.receiver.is_stopped or isinstance(event.error, ReceiverStoppedError):
            self._log("debug", "thread ended by stop", thread=event.thread, reason=text_of(event.error))
        else:
            message = f"Error on thread {event.thread}: {summary_of(event.error)}"
            self._restart(lifecycle.RestartRequested(message, event.error))

    def _stop(self, stop: Stop) -> None:
        state = self.receiver.state
        if self.receiver.is_ending:
            return
        if isinstance(state, lifecycle.Created | lifecycle.AwaitingRestart):
            # onStop is not called, or not called again.
            self._flush(stop)
        elif isinstance(state, lifecycle.Receiving):
            self._stop_run(stop)
        elif isinstance(state, lifecycle.Starting | lifecycle.Interrupted):
            start = state.start if isinstance(state, lifecycle.Interrupted) else state
            timeout_ms = self.receiver.settings.stop_timeout_ms or math.inf
            self._become(lifecycle.Interrupted(stop, start, self._now_ms + timeout_ms))
            if isinstance(state, lifecycle.Interrupted) and state.then.error is not None:
                self._do(lifecycle.Report(state.then.message, state.then.error))
            if math.isfinite(timeout_ms):
                self._do(lifecycle.AwaitDeadline(timeout_ms))
        elif not isinstance(state, lifecycle.Terminated):
            # A restart is ending the run; the stop replaces the restart.
            self._become(evolve(state, then=stop))

    def _stop_run(self, then: Restart | Stop) -> None:
        """Call ``onStop``. A restart does so on a thread of its own, because the caller must not wait for it."""
        self._become(lifecycle.Stopping(then))
        if isinstance(then, Stop):
            self._do(lifecycle.Call("onStop"))
        else:
            reports = (lifecycle.Report(then.message, then.error),) if then.error is not None else ()
            self._do(lifecycle.OnThread("receiver restart", (*reports, lifecycle.Call("onStop"))))

    def _stopped(self, state: lifecycle.Stopping, event: lifecycle.CallReturned) -> None:
        then = state.then
        if event.in_time:
            if event.error is not None:
                self._do(lifecycle.Report("onStop failed", event.error))
            self._flush(then, calls_on_drained=True)
            return
        what = _not_returned("onStop", self.receiver.settings.stop_timeout_ms)
        stuck = ReceiverStuckError(f"{what}: does it wake what receives, and that end?")
        self._do(lifecycle.Report(str(stuck), stuck))
        # Threads of the receiver may still receive. Failing the task ends the worker process and with it these threads.
        if isinstance(then, Restart):
            self._flush(Stop(str(stuck), stuck, stuck))
        else:
            self._flush(evolve(then, task_error=then.task_error or stuck))

    def _flush(self, then: Restart | Stop, *, calls_on_drained: bool = False) -> None:
        is_final = isinstance(then, Stop)
        self._become(lifecycle.Flushing(then, is_final, calls_on_drained), lifecycle.Flush(is_final))

    def _flushed(self, state: lifecycle.Flushing, event: lifecycle.Flushed) -> None:
        if isinstance(state.then, Stop) and not state.is_final:
            # The stop came during the flush of a restart.
            self._flush(state.then, calls_on_drained=state.calls_on_drained)
        elif state.calls_on_drained:
            self._become(
                lifecycle.Draining(state.then, state.is_final, event.flushed, event.dropped),
                lifecycle.Call("on_drained"),
            )
        else:
            self._deregister(state.then, event.flushed, event.dropped)

    def _drained(self, state: lifecycle.Draining, event: lifecycle.CallReturned) -> None:
        if not event.in_time:
            what = _not_returned("on_drained", self.receiver.settings.stop_timeout_ms)
            stuck = ReceiverStuckError(f"{what}: it must return promptly")
            self._do(lifecycle.Report(str(stuck), stuck))
        elif event.error is not None:
            self._do(lifecycle.Report("on_drained failed", event.error))
        if isinstance(state.then, Stop) and not state.is_final:
            self._flush(state.then)
        else:
            self._deregister(state.then, state.flushed, state.dropped)

    def _deregister(self, then: Restart | Stop, flushed: int, dropped: int) -> None:
        if isinstance(then, Restart):
            message = f"Restarting receiver with delay {then.delay_ms:.0f} ms: {then.message}"
            deregister = lifecycle.Deregister(message, then.error, restart_delay_ms=then.delay_ms)
            self._become(lifecycle.Deregistering(then, is_final=False), deregister)
            return
        message = with_error(then.message, then.error)
        if not self.receiver.is_registered:
            # Only this report reaches the user, because the driver does not know the receiver.
            self._log("warning", "receiver stopped before its start", reason=message)
            self._become(lifecycle.Terminated(then.task_error))
            return
        counts = {"stored": self.receiver.stored_records, "flushed": flushed, "dropped": dropped}
        self._log("info", "receiver stopped", reason=message, **counts)
        if dropped:
            message = f"{message} ({dropped} buffered records could not be stored and are lost)"
        self._become(lifecycle.Deregistering(then, is_final=True))
        self._do(lifecycle.Deregister(message, then.error, flushed, dropped, ended=True))

    def _deregistered(self, state: lifecycle.Deregistering, event: lifecycle.Deregistered) -> None:
        if isinstance(state.then, Restart):
            self._become(lifecycle.AwaitingRestart(), lifecycle.AwaitRestart(state.then.delay_ms))
        elif state.is_final:
            self._become(lifecycle.Terminated(state.then.task_error, event.is_delivered))
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
            self._do(lifecycle.OnThread("receiver disk", (lifecycle.Report(message, error),)))
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
        self._do(lifecycle.Log(level, event, context))


def _not_returned(name: str, timeout_ms: float, *, after_stop: bool = False) -> str:
    key = conf.key("start_timeout_ms" if name == "onStart" and not after_stop else "stop_timeout_ms")
    since = " after a stop" if after_stop else ""
    return f"{name} has not returned for {timeout_ms / 1000:g} s{since} ({key})"


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
