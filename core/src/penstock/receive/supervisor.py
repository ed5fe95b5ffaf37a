"""``ReceiverSupervisor``: all that stands between a receiver and the driver.

Owns the receiver's state, its rate limiter and its intake. Never decides whether or where the
receiver is launched again: that is the tracker's. ``store…`` run on the receiver's threads; restarts and stops that
come from elsewhere on a thread of their own.

Stop order: the receiver's ``onStop``, what is buffered is stored and accepted, then the driver is told.
"""

from __future__ import annotations

import math
import threading
import traceback
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.blocks.block import Block, StoredBlock
from penstock.errors import (
    PenstockError,
    ReceiverRefusedError,
    ReceiverStoppedError,
    ReceiverStuckError,
    text_of,
)
from penstock.receive.block_pusher import BlockPusher, Driver
from penstock.receive.messages import DeregisterReceiver, Registered, RegisterReceiver, ReportError
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.record_intake import RecordIntake
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff
from penstock.runtime.threads import EngineThread
from penstock.wire.messages import Reply

if TYPE_CHECKING:
    from penstock.conf import Settings
    from penstock.receive.receiver import Receiver

log = get_logger("receiver_supervisor")


class State(Enum):
    """Where a supervised receiver is."""

    INITIALIZED = "initialized"
    STARTED = "started"
    STOPPED = "stopped"


class ReceiverSupervisor:
    """Run one receiver.

    Args:
        receiver: to run.
        stream_id: of its input stream.
        epoch: the number of this launch; the driver refuses blocks of earlier ones.
        settings: in force.
        driver: to register with and report to.
        store: gives a block a home.
        discard: deletes blocks that were stored but not accepted.
        host: the address at which the driver reaches this process.
        port: of the endpoint there.
        directory: of the blocks that it serves; empty for none.
        disk_bytes: the size of the disk that blocks are on, 0 when that is not known.
        clock: the machine's by default.
    """

    def __init__(
        self,
        receiver: Receiver[Any],
        stream_id: int,
        epoch: int,
        settings: Settings,
        driver: Driver,
        store: Callable[[Block], StoredBlock | None],
        discard: Callable[[Iterable[str]], object],
        host: str = "127.0.0.1",
        port: int = 0,
        clock: Clock | None = None,
        directory: str = "",
        disk_bytes: int = 0,
    ) -> None:
        self._receiver, self.stream_id, self._epoch = receiver, stream_id, epoch
        self._driver = driver
        self._host, self._port, self._directory, self._disk_bytes = host, port, directory, disk_bytes
        self._clock = clock or SystemClock()
        self.block_interval_ms = settings.block_interval_ms
        self._limiter = RateLimiter(
            self._clock, settings.max_rate_per_s, settings.initial_rate_per_s, burst_ms=settings.burst_ms
        )
        self._start_timeout_ms = settings.start_timeout_ms or math.inf
        self._stop_timeout_ms = settings.stop_timeout_ms
        # Since when onStart runs, and what was stored before; None when it does not run, or is watched no more.
        self._starting: tuple[float, int] | None = None
        self._restart_backoff = Backoff(settings.receiver_restart_delay_ms, settings.max_relaunch_delay_ms)
        self._state = State.INITIALIZED
        # Guards changes of state. Held while onStart and onStop run, never while records are stored.
        self._lifecycle = threading.RLock()
        # Guards the flag alone: a receiver's thread asks for a restart while a stop waits for that thread.
        self._restart_lock = threading.Lock()
        self._restarting = False
        # Set once the receiver is to end; wakes the delay of a restart.
        self._ending = threading.Event()
        # Why the intake is paused.
        self._pauses: set[str] = set()
        # Of the driver's last orders.
        self._rate_number = self._pause_number = 0
        self._orders_lock = threading.Lock()
        self._registered = False
        #: The driver knows that the receiver has ended, and that all it took is stored.
        self.end_is_told = False
        self._terminated = threading.Event()
        logged = settings.wal_enabled
        self._intake = RecordIntake(
            self._clock,
            settings,
            self._limiter,
            BlockPusher(
                stream_id,
                epoch,
                settings.wal_max_failures - 1 if logged else settings.store_retries,
                settings.store_retries,
                driver,
                store,
                discard,
                self._clock,
                self._ending,
                self._terminated,
                self._on_disk_full,
            ),
            report_error=self.report_error,
            on_success=self._restart_backoff.reset,
            on_failure=lambda error: self.stop_soon(f"Error storing a block: {text_of(error)}", error),
            on_tick=self._watch_start,
        )
        # The way of a record is short: no call in between.
        self.store, self.store_all = self._intake.store, self._intake.store_all
        self.store_arrow = self._intake.store_arrow
        self._error: BaseException | None = None
        receiver.attach(self)

    # -- the receiver's state --

    @property
    def is_started(self) -> bool:
        """The receiver's ``onStart`` was called and nobody stopped it since."""
        return self._state is State.STARTED

    @property
    def is_stopped(self) -> bool:
        """The receiver was stopped, for good or until a restart."""
        return self._state is State.STOPPED

    @property
    def rate_limit(self) -> float | None:
        """Records/s in force, ``None`` for no limit."""
        return self._limiter.rate

    def start(self) -> None:
        """Start the generator, register, start the receiver; ``await_termination`` raises what fails."""
        self._intake.start()
        self._start_receiver()

    def start_soon(self) -> None:
        """Start on another thread: the caller's must not be held by the receiver's code."""

        def start() -> None:
            try:
                self.start()
            # Whatever it is, somebody awaits the end.
            except BaseException as error:
                self.stop(f"Error starting receiver {self.stream_id}: {text_of(error)}", error)

        EngineThread("receiver start", start).start()

    def await_termination(self) -> None:
        """Return when the receiver has stopped for good.

        Raises:
            BaseException: what stopped it, if that was an error.
        """
        self._terminated.wait()
        if self._error is not None:
            raise self._error

    def update_rate(self, rate: float, number: int) -> None:
        """Set the rate limit, records/s, unless an order with a higher number has come before."""
        with self._orders_lock:
            if number < self._rate_number:
                return
            self._rate_number, before = number, self._limiter.rate
            self._limiter.update(rate)
        self._tell_rate(before)

    def pause(self, paused: bool, number: int) -> None:
        """Take nothing, in whatever form, or go on: stores wait. Unless an order with a higher number came before."""
        with self._orders_lock:
            if number >= self._pause_number:
                self._pause_number = number
                self._set_paused("the driver", paused)

    def _on_disk_full(self, error: BaseException | None) -> None:
        with self._orders_lock:
            self._set_paused("a full disk", error is not None)
        if error is None:
            log.warning("no block waits for room on the disk any more", stream_id=self.stream_id)
        else:
            message = "the disk is full: the receiver pauses until there is room"
            EngineThread("receiver disk", lambda: self.report_error(message, error)).start()

    def _set_paused(self, reason: str, paused: bool) -> None:
        """Add or remove a reason for taking nothing. The caller holds the lock."""
        before = bool(self._pauses)
        if paused:
            self._pauses.add(reason)
        else:
            self._pauses.discard(reason)
        if bool(self._pauses) != before:
            log.info("intake paused" if paused else "intake goes on", stream_id=self.stream_id, reason=reason)
            self._limiter.pause(paused)

    def _keep_to(self, registered: Registered) -> None:
        """Keep to what the answer to the registration says, where nothing newer was told meanwhile."""
        with self._orders_lock:
            if registered.number >= self._rate_number:
                self._rate_number = registered.number
                self._limiter.update(registered.rate or 0)
            if registered.number >= self._pause_number:
                self._pause_number = registered.number
                self._set_paused("the driver", registered.paused)

    def _tell_rate(self, before: float | None) -> None:
        if self._limiter.rate != before:
            log.debug("rate limit changed", stream_id=self.stream_id, rate=self._limiter.rate)
            try:
                self._receiver.on_rate_change(self._limiter.rate)
            except Exception as error:
                self.report_error("on_rate_change failed", error)

    def report_error(self, message: str, error: BaseException | None = None) -> None:
        """Tell the driver of an error."""
        # The driver warns of it.
        log.info("receiver reports an error", stream_id=self.stream_id, message=message)
        self._tell(ReportError(self.stream_id, self._epoch, message, _trace(error)))

    def restart(self, message: str, error: BaseException | None = None, delay_ms: int | None = None) -> None:
        """Stop the receiver, start it again after a delay. Returns at once; further calls until then are ignored."""
        with self._restart_lock:
            if self._restarting or self._ending.is_set():
                return
            self._restarting = True
        delay = self._restart_backoff.next_ms() if delay_ms is None else delay_ms
        EngineThread("receiver restart", lambda: self._restart(message, error, delay)).start()

    def stop_soon(self, message: str, error: BaseException | None = None) -> None:
        """Stop on another thread: for callers that the stop itself waits for."""
        EngineThread("receiver stop", lambda: self.stop(message, error)).start()

    def stop(self, message: str, error: BaseException | None = None) -> None:
        """Stop for good: ``onStop``, flush, tell the driver. Harmless when repeated."""
        with self._lifecycle:
            if self._ending.is_set():
                return
            self._ending.set()
            self._clock.wake()
            self._error = _as_error(error)
            stuck = self._stop_receiver()
            # What of it runs still ends with the process, which a task that fails is the last of.
            self._error = self._error or stuck
        self._finish(message, error)

    def _finish(self, message: str, error: BaseException | None) -> None:
        """Flush what is taken, tell the driver, let go who awaits the end."""
        self._intake.stop()
        flushed, dropped = self._intake.flushed_records, self._intake.dropped_records
        log.info(
            "receiver stopped",
            stream_id=self.stream_id,
            reason=message,
            stored=self.stored_records,
            flushed=flushed,
            dropped=dropped,
        )
        if dropped:
            message = f"{message} ({dropped} buffered records could not be stored and are lost)"
        # A driver that never answered is not waited for once more.
        if self._registered:
            self.end_is_told = self._tell(
                DeregisterReceiver(self.stream_id, self._epoch, message, _trace(error), flushed, dropped, ended=True)
            )
        self._terminated.set()

    def _start_receiver(self) -> None:
        with self._lifecycle:
            if self._ending.is_set():
                return
            try:
                name = type(self._receiver).__name__
                register = RegisterReceiver(
                    self.stream_id, self._epoch, name, self._port, self._host, self._directory, self._disk_bytes
                )
                registered = self._driver.ask(register, Registered)
                if not registered.accepted:
                    raise ReceiverRefusedError(
                        f"the driver refused to start receiver {self.stream_id}: {registered.reason}"
                    )
                self._registered = True
                self._limiter.start()
                before = self._limiter.rate
                self._keep_to(registered)
                self._state = State.STARTED
                self._starting = self._clock.monotonic_ms(), self.stored_records
                try:
                    self._receiver.onStart()
                finally:
                    self._starting = None
                self._tell_rate(before)
            # The receiver is the author's code: whatever it raises ends this receiver, not the worker's bookkeeping.
            except BaseException as error:
                self.stop(f"Error starting receiver {self.stream_id}: {text_of(error)}", error)

    def _watch_start(self) -> None:
        """Notice an ``onStart`` that does not return. On the timer's thread."""
        starting = self._starting
        if starting is None or self._clock.monotonic_ms() - starting[0] < self._start_timeout_ms:
            return
        self._starting = None
        message = f"onStart has not returned for {self._start_timeout_ms / 1000:g} s; it must only start what receives"
        if self.stored_records > starting[1]:
            EngineThread(
                "receiver watchdog", lambda: self.report_error(f"{message}: the receiver cannot be stopped in order")
            ).start()
        else:
            EngineThread("receiver watchdog", lambda: self._end_stuck(message)).start()

    def _end_stuck(self, message: str) -> None:
        """End without ``onStop``: the thread that is in ``onStart`` holds the lock of the life cycle."""
        error = ReceiverStuckError(message)
        self._ending.set()
        self._clock.wake()
        self._error = error
        self._state = State.STOPPED
        self._limiter.stop()
        self._finish(message, error)

    def _stop_receiver(self) -> ReceiverStuckError | None:
        """Have ``onStop`` called, if it is due; return an error, which was told, when that has not come back in time.

        On a thread of its own: who waits for it has a deadline.
        """
        if self._state is not State.STARTED:
            return None
        self._state = State.STOPPED
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

    def _restart(self, message: str, error: BaseException | None, delay_ms: float) -> None:
        if error is not None:
            self.report_error(message, error)
        with self._lifecycle:
            stuck = self._stop_receiver()
        if stuck is not None:
            # Nobody can say what of it runs still: it is for another process.
            self.stop(str(stuck), stuck)
            return
        reason = f"Restarting receiver with delay {delay_ms:.0f} ms: {message}"
        self._tell(DeregisterReceiver(self.stream_id, self._epoch, reason, _trace(error)))
        self._clock.wait_for(delay_ms, self._ending)
        with self._lifecycle:
            self._restarting = False
            self._start_receiver()

    @property
    def stored_records(self) -> int:
        """How many were stored and accepted."""
        return self._intake.stored_records

    # -- the driver --

    def _tell(self, message: object) -> bool:
        """Send what the driver should know, say whether it was; when it is not the task's end will tell it."""
        try:
            self._driver.ask(message, Reply)
            return True
        except PenstockError as error:
            log.warning(
                "driver not told", stream_id=self.stream_id, message=type(message).__name__, error=text_of(error)
            )
            return False


def _as_error(error: object) -> BaseException | None:
    """Something to raise, whatever was given for an error."""
    return error if error is None or isinstance(error, BaseException) else ReceiverStoppedError(text_of(error))


def _trace(error: object) -> str:
    """The traceback; text that was given for an error is its own."""
    if isinstance(error, BaseException):
        return "".join(traceback.format_exception(error))
    return "" if error is None else text_of(error)
