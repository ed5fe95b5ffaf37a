"""``ReceiverSupervisor``: runs one receiver and stands between it and the driver.

Owns the receiver's state, its rate limiter and its record writer. Never decides whether or where the receiver is
relaunched; the tracker does. ``store…`` run on the receiver's threads; restarts and requested stops run on threads of
their own. Order of a stop: the receiver's ``onStop``, then the buffer is flushed, then ``on_drained``, then the driver
is notified. A stop or restart that comes while ``onStart`` runs makes it end: ``isStopped`` is true and stores fail.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import evolve

from penstock.errors import (
    PenstockError,
    ReceiverRefusedError,
    ReceiverStoppedError,
    ReceiverStuckError,
    summary_of,
    text_of,
)
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.held_stores import HeldStores
from penstock.receive.lifecycle_calls import OnStartCall, call_within, not_returned
from penstock.receive.messages import (
    DeregisterReceiver,
    ReceiverDriver,
    Registered,
    RegisterReceiver,
    ReportError,
    UpdateRateLimit,
)
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.receiver import Receiver
from penstock.receive.recent_lines import recent_lines
from penstock.receive.record_writer import RecordWriter, WriterCallbacks
from penstock.receive.thread_errors import ThreadErrors
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff
from penstock.runtime.threads import EngineThread
from penstock.runtime.tracebacks import traceback_of
from penstock.wire.json_codec import Reply

if TYPE_CHECKING:
    from penstock.blocks.received_block_handler import ReceivedBlockHandler
    from penstock.conf import Settings

log = get_logger("receiver_supervisor")


class ReceiverSupervisor:
    """Run one receiver.

    Args:
        receiver: a new instance for each supervisor.
        launch: the message that registers the receiver, also after each restart.
        settings: the application's.
        driver: accepts the receiver and its blocks, and gets its errors.
        blocks: stores blocks, and deletes those that the driver did not accept.
        clock: the system's by default.
    """

    def __init__(
        self,
        receiver: Receiver[Any],
        launch: RegisterReceiver,
        settings: Settings,
        driver: ReceiverDriver,
        blocks: ReceivedBlockHandler,
        clock: Clock | None = None,
    ) -> None:
        self._receiver, self._launch, self._driver = receiver, launch, driver
        self._clock, self._log = clock or SystemClock(), log.bind(stream_id=launch.stream_id)
        self.stream_id, self.block_interval_ms = launch.stream_id, settings.block_interval_ms
        self.application_id = settings.with_prefix("spark.app.").get("id", "")
        self._start_timeout_ms = settings.start_timeout_ms or math.inf
        self._stop_timeout_ms = settings.stop_timeout_ms
        self._restart_backoff = Backoff(settings.receiver_restart_delay_ms, settings.max_relaunch_delay_ms)
        self._held = HeldStores(self._clock, type(receiver).__module__, launch.stream_id)
        self._limiter = RateLimiter(
            self._clock, settings.max_rate_per_s, settings.initial_rate_per_s, settings.burst_ms, self._held.hold
        )
        # The number of the last desired state that was applied, and its guard.
        self._desired_number, self._desired_lock = 0, threading.Lock()
        # Set once the receiver is to end; ends the delay of a restart and the waits for disk space.
        self._ending, self._terminated = threading.Event(), threading.Event()
        pusher = BlockPusher(launch, settings, driver, blocks, self._clock, self._ending, self._on_disk_full)
        callbacks = WriterCallbacks(
            report_error=self.report_error,
            on_accepted=self._restart_backoff.reset,
            on_failure=lambda error: self.stop_soon(f"Error storing a block: {text_of(error)}", error),
            on_tick=self._on_tick,
        )
        self._writer = RecordWriter(self._clock, settings, self._limiter, pusher, callbacks, self._held.hold)
        # The hot path of a record: no call in between.
        self.store, self.store_all = self._writer.store, self._writer.store_all
        self.store_arrow = self._writer.store_arrow
        # Serializes starts and stops. Held while onStart and onStop run, never while records are stored.
        self._lifecycle = threading.RLock()
        #: Whether ``onStart`` was called and the receiver was not stopped since; whether it was stopped, for good or
        #: until a restart.
        self.is_started = self.is_stopped = False
        # The call of onStart, and the number of records stored before it.
        self._start_call, self._stored_before_start = OnStartCall(self._clock), 0
        self._thread_errors = ThreadErrors(receiver, self._on_thread_error)
        # Whether onStop was called, and not yet on_drained; and its guard.
        self._drain_due, self._drain_lock = False, threading.Lock()
        # Whether a restart was requested and onStart has not run since. Its own lock, as the receiver's threads ask for
        # restarts while a stop waits for them.
        self._restarting, self._restarting_lock = False, threading.Lock()
        # Whether the driver has accepted the receiver once.
        self._registered = False
        # The error that ended the receiver.
        self._error: BaseException | None = None
        #: What ``onStart`` raised.
        self.start_error: BaseException | None = None
        #: Whether the driver knows that the receiver has ended and everything it took is stored or lost.
        self.is_deregistered = False
        receiver._penstock_attach(self)

    # -- state --

    @property
    def is_terminated(self) -> bool:
        """Whether the receiver was stopped for good and everything it took is stored or lost."""
        return self._terminated.is_set()

    @property
    def stored_records(self) -> int:
        """The number of records that were stored and accepted."""
        return self._writer.stored_records

    @property
    def rate_limit(self) -> float | None:
        """Records/s in force, ``None`` for no limit."""
        return self._limiter.rate

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until the receiver has stopped for good; return whether it has.

        Raises:
            BaseException: the error that stopped it.
        """
        terminated = self._terminated.wait(timeout_s)
        if terminated and self._error is not None:
            raise self._error
        return terminated

    # -- commands: from the driver and from the receiver --

    def start(self) -> None:
        """Register and start the receiver, also at each restart. ``await_termination`` raises what fails."""
        with self._lifecycle:
            if self._ending.is_set():
                return
            try:
                if not self._registered:
                    self._writer.start()
                registered = self._driver.ask(self._launch, Registered)
                if not registered.accepted:
                    raise ReceiverRefusedError(
                        f"the driver refused to start receiver {self.stream_id}: {registered.reason}"
                    )
                self._registered = True
                has_new_rate = registered.desired is not None and self._obey(registered.desired)
                if not self._start_call.begin(self._on_begin):
                    return
                try:
                    self._receiver.onStart()
                finally:
                    self._start_call.end()
                if has_new_rate:
                    self._notify_rate()
            # The author's code may raise anything: that ends this receiver and nothing else.
            except BaseException as error:
                if self._start_call.interrupted:
                    self._log.debug("onStart ended by stop", reason=text_of(error))
                    return
                if self.is_started:
                    self.start_error = error
                    advice = "call restart() in onStart to try again in this process, reportError() to continue"
                    self._log.warning("onStart failed", reason=summary_of(error), advice=advice)
                self.stop(f"Error starting receiver {self.stream_id}: {summary_of(error)}", error)

    def start_soon(self) -> None:
        """Start on another thread, so that the receiver's code cannot block the caller."""
        EngineThread("receiver start", self.start).start()

    def obey(self, desired: UpdateRateLimit) -> None:
        """Apply the desired state that the driver sent, unless one with a higher number was applied before."""
        if self._obey(desired):
            self._notify_rate()

    def update(self, number: int = 0, *, rate: float | None = 0.0, paused: bool | None = None) -> None:
        """Apply a desired state unless one with a higher number was applied before.

        Args:
            number: the desired state's number; 0 where the caller keeps the order itself.
            rate: records/s, ``None`` for no limit; a rate of 0 or less leaves it unchanged.
            paused: hold every store; ``None`` leaves that unchanged.
        """
        if self._apply(number, rate, paused):
            self._notify_rate()

    def report_error(self, message: str, error: BaseException | None = None) -> None:
        """Report an error to the driver; the receiver continues."""
        message = _with_error(message, error)
        # The driver logs it as a warning.
        self._log.info("receiver error reported", message=message)
        self._notify(ReportError(self.stream_id, self._launch.epoch, message, _trace(error)))

    def restart(self, message: str, error: BaseException | None = None, delay_ms: int | None = None) -> None:
        """Stop the receiver and start it again after a delay. Returns at once; ignored while a restart is under way.

        Args:
            message: why.
            error: the cause.
            delay_ms: between stop and start; by default ``spark.streaming.receiverRestartDelay``, doubling.
        """
        with self._restarting_lock:
            if self._restarting or self._ending.is_set():
                return
            self._restarting = True
        delay = self._restart_backoff.next_ms() if delay_ms is None else delay_ms
        EngineThread("receiver restart", lambda: self._restart(message, error, delay)).start()

    def stop_soon(self, message: str, error: BaseException | None = None) -> None:
        """Stop on another thread: for callers that the stop itself waits for."""
        EngineThread("receiver stop", lambda: self.stop(message, error)).start()

    def stop(self, message: str, error: BaseException | None = None) -> None:
        """Stop for good: call ``onStop``, flush the buffer, call ``on_drained``, notify the driver. Idempotent."""
        self._interrupt_start(is_final=True)
        if not self._start_call.wait(self._stop_timeout_ms):
            what = not_returned("onStart", self._stop_timeout_ms, after_stop=True)
            self._abandon_start(ReceiverStuckError(f"{what}; it must only start what receives"))
        if self._start_call.abandoned:
            self._terminated.wait()
            return
        with self._lifecycle:
            if self._ending.is_set():
                return
            self._end(_as_error(error))
            stuck = self._stop_receiver()
            if stuck is not None and error is None:
                # Failing the task ends the worker process and with it any thread that onStop left running.
                self._error = stuck
        self._finish(message, error)

    # -- onStart: its interruption and its deadline --

    def _on_begin(self) -> None:
        self._limiter.start()
        self._thread_errors.start()
        self._stored_before_start = self.stored_records
        self.is_started, self.is_stopped = True, False

    def _interrupt_start(self, *, is_final: bool) -> None:
        """Make ``onStart`` end if it runs: ``isStopped`` is true and every store fails."""

        def interrupt() -> None:
            self.is_stopped = True
            self._limiter.stop()
            self._writer.refuse(True)

        self._start_call.interrupt(interrupt, is_final=is_final)

    def _abandon_start(self, error: ReceiverStuckError) -> None:
        """End without ``onStop``: the thread that is in ``onStart`` holds the lifecycle lock."""
        if self._start_call.abandon():
            self._end(error)
            self.is_started, self.is_stopped = False, True
            self._limiter.stop()
            self._finish(str(error), error)

    def _on_tick(self) -> None:
        self._held.check()
        self._check_start_timeout()

    def _check_start_timeout(self) -> None:
        """Notice an ``onStart`` that does not return. Called on the timer's thread."""
        if not self._start_call.is_overdue(self._start_timeout_ms):
            return
        message = f"{not_returned('onStart', self._start_timeout_ms)}; it must only start what receives"
        if self.stored_records > self._stored_before_start:
            # It receives in onStart: wrong, but no reason to lose what it receives.
            message = f"{message}: derive from ThreadReceiver, or start a thread"
            EngineThread("receiver watchdog", lambda: self.report_error(message)).start()
        else:
            EngineThread("receiver watchdog", lambda: self._abandon_start(ReceiverStuckError(message))).start()

    # -- restart and stop --

    def _restart(self, message: str, error: BaseException | None, delay_ms: float) -> None:
        if error is not None:
            self.report_error(message, error)
        self._interrupt_start(is_final=False)
        with self._lifecycle:
            stuck = self._stop_receiver()
        if stuck is not None:
            # The receiver may still run in this process: it must restart in another one.
            self.stop(str(stuck), stuck)
            return
        self._writer.flush()
        self._call_on_drained()
        if self._ending.is_set():
            return
        reason = f"Restarting receiver with delay {delay_ms:.0f} ms: {message}"
        self._notify(DeregisterReceiver(self.stream_id, self._launch.epoch, reason, _trace(error)))
        self._clock.wait_for(delay_ms, self._ending)
        with self._lifecycle:
            self._restarting = False
            self.start()

    def _end(self, error: BaseException | None) -> None:
        self._error = error
        self._ending.set()
        self._clock.wake()

    def _stop_receiver(self) -> ReceiverStuckError | None:
        """Call ``onStop`` if the receiver is started; return an error, already reported, if it exceeds its deadline."""
        # After an onStart that was interrupted: onStop may store.
        self._writer.refuse(False)
        if not self.is_started:
            return None
        self.is_started, self.is_stopped = False, True
        self._limiter.stop()
        stuck = self._call("onStop", self._receiver.onStop, "does it wake what receives, and that end?")
        self._drain_due = stuck is None
        return stuck

    def _call_on_drained(self) -> None:
        """Call ``on_drained``, once after each ``onStop``."""
        with self._drain_lock:
            is_due, self._drain_due = self._drain_due, False
        if is_due and type(self._receiver).on_drained is not Receiver.on_drained:
            self._call("on_drained", self._receiver.on_drained, "it must return promptly")

    def _call(self, name: str, method: Callable[[], object], advice: str) -> ReceiverStuckError | None:
        """Call a method of the receiver; return an error, already reported, if it exceeds the timeout of a stop."""

        def on_error(error: BaseException) -> None:
            self.report_error(f"{name} failed", error)

        if call_within(self._clock, self._stop_timeout_ms, name, method, on_error):
            return None
        error = ReceiverStuckError(f"{not_returned(name, self._stop_timeout_ms)}: {advice}")
        self.report_error(str(error), error)
        return error

    def _on_thread_error(self, thread: str, error: BaseException) -> None:
        if self.is_stopped or isinstance(error, ReceiverStoppedError):
            self._log.debug("thread ended by stop", thread=thread, reason=text_of(error))
        else:
            self.restart(f"Error on thread {thread}: {summary_of(error)}", error)

    def _finish(self, message: str, error: BaseException | None) -> None:
        """Flush the buffer, notify the driver, release whoever awaits the termination."""
        message = _with_error(message, error)
        flushed, dropped = self._writer.stop()
        self._call_on_drained()
        self._thread_errors.stop()
        stored = self.stored_records
        if self._registered:
            self._log.info("receiver stopped", reason=message, stored=stored, flushed=flushed, dropped=dropped)
        else:
            # Nobody else says it: the driver does not know the receiver.
            self._log.warning("receiver stopped before its start", reason=message)
        if dropped:
            message = f"{message} ({dropped} buffered records could not be stored and are lost)"
        # A driver that never answered would cost another timeout.
        if self._registered:
            epoch, trace = self._launch.epoch, _trace(error)
            end = DeregisterReceiver(self.stream_id, epoch, message, trace, flushed, dropped, ended=True)
            self.is_deregistered = self._notify(end)
        self._terminated.set()

    # -- helpers --

    def _obey(self, desired: UpdateRateLimit) -> bool:
        return self._apply(desired.number, desired.rate, desired.paused)

    def _apply(self, number: int, rate: float | None, paused: bool | None) -> bool:
        """Apply a desired state unless it is outdated; return whether the rate changed."""
        with self._desired_lock:
            if number < self._desired_number:
                return False
            self._desired_number, before = number, self._limiter.rate
            if paused is not None:
                self._pause(paused, "driver")
            self._limiter.update(rate)
            return self._limiter.rate != before

    def _pause(self, paused: bool, reason: str) -> None:
        if self._limiter.pause(paused, reason):
            self._log.info("receiver paused" if paused else "receiver resumed", reason=reason)

    def _on_disk_full(self, error: BaseException | None) -> None:
        self._pause(error is not None, "disk full")
        if error is None:
            self._log.warning("disk space available again")
        else:
            message = "the disk is full: the receiver pauses until there is room"
            EngineThread("receiver disk", lambda: self.report_error(message, error)).start()

    def _notify_rate(self) -> None:
        self._log.debug("rate limit changed", rate=self._limiter.rate)
        try:
            self._receiver.on_rate_change(self._limiter.rate)
        except Exception as error:
            self.report_error("on_rate_change failed", error)

    def _notify(self, message: ReportError | DeregisterReceiver) -> bool:
        """Notify the driver and return whether it was reached; otherwise the end of the task notifies it."""
        try:
            self._driver.ask(evolve(message, log_lines=recent_lines()) if message.error else message, Reply)
            return True
        except PenstockError as error:
            self._log.warning("driver not notified", message=type(message).__name__, reason=text_of(error))
            return False


def _as_error(error: object) -> BaseException | None:
    """Make whatever was given as an error an exception."""
    return error if error is None or isinstance(error, BaseException) else ReceiverStoppedError(text_of(error))


def _with_error(message: str, error: object) -> str:
    """A message that names the error's type and text, as far as it does not already."""
    if error is None or type(error).__name__ in message:
        return message
    if not isinstance(error, BaseException):
        return message if text_of(error) in message else f"{message} - {text_of(error)}"
    if (text := text_of(error)) and text in message:
        # Penstock's own errors are sentences.
        return message if isinstance(error, PenstockError) else f"{message} ({type(error).__name__})"
    return f"{message} - {summary_of(error)}"


def _trace(error: object) -> str:
    """The traceback of an exception, or the text of whatever else was given as an error."""
    if isinstance(error, BaseException):
        return traceback_of(error)
    return "" if error is None else text_of(error)
