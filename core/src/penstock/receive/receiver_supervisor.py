"""``ReceiverSupervisor``: runs one receiver and stands between it and the driver.

Owns the receiver's state, its rate limiter and its record writer. Never decides whether or where the receiver is
relaunched; the tracker does. ``store…`` run on the receiver's threads; restarts and requested stops run on threads of
their own. Order of a stop: the receiver's ``onStop``, then the buffer is flushed, then the driver is notified.
"""

from __future__ import annotations

import math
import threading
import traceback
from typing import TYPE_CHECKING, Any

from penstock.errors import (
    PenstockError,
    ReceiverRefusedError,
    ReceiverStoppedError,
    ReceiverStuckError,
    summary_of,
    text_of,
)
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.messages import (
    DeregisterReceiver,
    ReceiverDriver,
    Registered,
    RegisterReceiver,
    ReportError,
    UpdateRateLimit,
)
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.record_writer import RecordWriter, WriterCallbacks
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff
from penstock.runtime.threads import EngineThread
from penstock.wire.messages import Reply

if TYPE_CHECKING:
    from penstock.blocks.received_block_handler import ReceivedBlockHandler
    from penstock.conf import Settings
    from penstock.receive.receiver import Receiver

log = get_logger("receiver_supervisor")


class ReceiverSupervisor:
    """Run one receiver.

    Args:
        receiver: a new instance for each supervisor.
        launch: the message that registers the receiver, also after each restart.
        settings: of the application.
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
        self._start_timeout_ms = settings.start_timeout_ms or math.inf
        self._stop_timeout_ms = settings.stop_timeout_ms
        self._restart_backoff = Backoff(settings.receiver_restart_delay_ms, settings.max_relaunch_delay_ms)
        self._limiter = RateLimiter(
            self._clock, settings.max_rate_per_s, settings.initial_rate_per_s, burst_ms=settings.burst_ms
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
            on_tick=self._check_start_timeout,
        )
        self._writer = RecordWriter(self._clock, settings, self._limiter, pusher, callbacks)
        # The hot path of a record: no call in between.
        self.store, self.store_all = self._writer.store, self._writer.store_all
        self.store_arrow = self._writer.store_arrow
        # Serializes starts and stops. Held while onStart and onStop run, never while records are stored.
        self._lifecycle = threading.RLock()
        #: Whether ``onStart`` was called and the receiver was not stopped since; whether it was stopped, for good or
        #: until a restart.
        self.is_started = self.is_stopped = False
        # When onStart was called (monotonic ms) and how many records were stored by then; None when it does not run or
        # has exceeded its deadline.
        self._starting: tuple[float, int] | None = None
        # Whether a restart was requested and onStart has not run since. Its own lock, as the receiver's threads ask for
        # restarts while a stop waits for them.
        self._restarting, self._restarting_lock = False, threading.Lock()
        # Whether the driver has accepted the receiver once.
        self._registered = False
        # The error that ended the receiver.
        self._error: BaseException | None = None
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
                self._limiter.start()
                has_new_rate = registered.desired is not None and self._obey(registered.desired)
                self._starting = self._clock.monotonic_ms(), self.stored_records
                self.is_started, self.is_stopped = True, False
                try:
                    self._receiver.onStart()
                finally:
                    self._starting = None
                if has_new_rate:
                    self._notify_rate()
            # The author's code may raise anything: that ends this receiver and nothing else.
            except BaseException as error:
                self.stop(f"Error starting receiver {self.stream_id}: {summary_of(error)}", error)

    def start_soon(self) -> None:
        """Start on another thread, so that the receiver's code cannot block the caller."""
        EngineThread("receiver start", self.start).start()

    def obey(self, desired: UpdateRateLimit) -> None:
        """Apply the desired state that the driver sent, unless one with a higher number was applied before."""
        if self._obey(desired):
            self._notify_rate()

    def update(self, number: int = 0, *, rate: float | None = None, paused: bool | None = None) -> None:
        """Apply a desired state unless one with a higher number was applied before.

        Args:
            number: the desired state's number; 0 where the caller keeps the order itself.
            rate: records/s; ``None`` leaves it unchanged, and so does a rate of 0 or less.
            paused: hold every store; ``None`` leaves that unchanged.
        """
        if self._apply(number, rate, paused):
            self._notify_rate()

    def report_error(self, message: str, error: BaseException | None = None) -> None:
        """Report an error to the driver; the receiver continues."""
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
        """Stop for good: call ``onStop``, flush the buffer, notify the driver. Idempotent."""
        with self._lifecycle:
            if self._ending.is_set():
                return
            self._end(_as_error(error))
            stuck = self._stop_receiver()
            if stuck is not None and error is None:
                # Failing the task ends the worker process and with it any thread that onStop left running.
                self._error = stuck
        self._finish(message, error)

    # -- deadline of onStart --

    def _check_start_timeout(self) -> None:
        """Notice an ``onStart`` that does not return. Called on the timer's thread."""
        starting = self._starting
        if starting is None or self._clock.monotonic_ms() - starting[0] < self._start_timeout_ms:
            return
        self._starting = None
        message = f"onStart has not returned for {self._start_timeout_ms / 1000:g} s; it must only start what receives"

        def end() -> None:
            # Without onStop: the thread that is in onStart holds the lifecycle lock.
            error = ReceiverStuckError(message)
            self._end(error)
            self.is_started, self.is_stopped = False, True
            self._limiter.stop()
            self._finish(message, error)

        if self.stored_records > starting[1]:
            # It receives in onStart: wrong, but no reason to lose what it receives.
            message = f"{message}: the receiver cannot be stopped in order"
            EngineThread("receiver watchdog", lambda: self.report_error(message)).start()
        else:
            EngineThread("receiver watchdog", end).start()

    # -- restart and stop --

    def _restart(self, message: str, error: BaseException | None, delay_ms: float) -> None:
        if error is not None:
            self.report_error(message, error)
        with self._lifecycle:
            stuck = self._stop_receiver()
        if stuck is not None:
            # The receiver may still run in this process: it must restart in another one.
            self.stop(str(stuck), stuck)
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
        """Call ``onStop`` if the receiver is started; return an error, already reported, if it exceeds its deadline.

        ``onStop`` runs on a thread of its own, since the caller must not wait longer than that.
        """
        if not self.is_started:
            return None
        self.is_started, self.is_stopped = False, True
        self._limiter.stop()
        returned, raised = threading.Event(), list[BaseException]()

        def on_stop() -> None:
            try:
                self._receiver.onStop()
            except BaseException as error:
                raised.append(error)
            finally:
                returned.set()
                self._clock.wake()

        EngineThread("receiver onStop", on_stop).start()
        if self._stop_timeout_ms:
            self._clock.wait_for(self._stop_timeout_ms, returned)
        else:
            returned.wait()
        if returned.is_set():
            for each in raised:
                self.report_error("onStop failed", each)
            return None
        error = ReceiverStuckError(
            f"onStop has not returned for {self._stop_timeout_ms / 1000:g} s: does it wake what receives, and that end?"
        )
        self.report_error(str(error), error)
        return error

    def _finish(self, message: str, error: BaseException | None) -> None:
        """Flush the buffer, notify the driver, release whoever awaits the termination."""
        flushed, dropped = self._writer.stop()
        stored = self.stored_records
        self._log.info("receiver stopped", reason=message, stored=stored, flushed=flushed, dropped=dropped)
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
        return self._apply(desired.number, math.inf if desired.rate is None else desired.rate, desired.paused)

    def _apply(self, number: int, rate: float | None, paused: bool | None) -> bool:
        """Apply a desired state unless it is outdated; return whether the rate changed."""
        with self._desired_lock:
            if number < self._desired_number:
                return False
            self._desired_number, before = number, self._limiter.rate
            if paused is not None:
                self._pause(paused, "driver")
            if rate is not None:
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
            self._driver.ask(message, Reply)
            return True
        except PenstockError as error:
            self._log.warning("driver not notified", message=type(message).__name__, error=text_of(error))
            return False


def _as_error(error: object) -> BaseException | None:
    """Make whatever was given as an error an exception."""
    return error if error is None or isinstance(error, BaseException) else ReceiverStoppedError(text_of(error))


def _trace(error: object) -> str:
    """The traceback of an exception, or the text of whatever else was given as an error."""
    if isinstance(error, BaseException):
        return "".join(traceback.format_exception(error))
    return "" if error is None else text_of(error)
