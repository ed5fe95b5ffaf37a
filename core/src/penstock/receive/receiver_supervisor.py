"""``ReceiverSupervisor``: the shell around ``receiver_lifecycle.step``, between a receiver and the driver.

Limiter, generator and waits follow the record under its lock, so that they keep the order of the events; calls of the
receiver and messages to the driver run on the thread that gave the event, or on one of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve

from penstock.errors import PenstockError, ReceiverRefusedError, text_of
from penstock.receive import running_receiver as lifecycle
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.messages import DeregisterReceiver, ReceiverDriver, Registered, RegisterReceiver, ReportError
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.receiver import Receiver
from penstock.receive.receiver_lifecycle import step, with_error
from penstock.receive.receiver_threads import ThreadErrors, WaitingStores
from penstock.receive.recent_lines import recent_lines
from penstock.receive.running_receiver import Effect, Event, Intake, RunningReceiver, Terminated, new_receiver
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread, contain_errors
from penstock.runtime.tracebacks import traceback_of
from penstock.wire.json_codec import Reply

if TYPE_CHECKING:
    from penstock.blocks.received_block_handler import ReceivedBlockHandler
    from penstock.conf import Settings

log = get_logger("receiver_supervisor")


class ReceiverSupervisor:
    """Runs one receiver, a new instance for each supervisor."""

    def __init__(
        self,
        receiver: Receiver[Any],
        launch: RegisterReceiver,
        settings: Settings,
        driver: ReceiverDriver,
        blocks: ReceivedBlockHandler,
        clock: Clock | None = None,
    ) -> None:
        self._receiver = receiver
        self._launch = launch
        self._driver = driver
        self._clock = clock or SystemClock()
        self._log = log.bind(stream_id=launch.stream_id)
        self.stream_id = launch.stream_id
        self.block_interval_ms = settings.block_interval_ms
        #: The merged metadata of the stream's accepted blocks, as of the last registration.
        self.position: Mapping[str, Any] = {}
        self.application_id = settings.with_prefix("spark.app.").get("id", "")
        self._stop_timeout_ms = settings.stop_timeout_ms
        self.state = new_receiver(launch.stream_id, settings, f"{self.application_id}/{launch.epoch}")
        # Guards the state, and the order of the effects that return at once.
        self._lock = threading.Lock()
        # Set to wake the threads that wait for a restart, or for the end.
        self._ending = threading.Event()
        self._terminated = threading.Event()
        self._thread_errors = ThreadErrors(receiver, lambda *failed: self.take(lifecycle.ThreadFailed(*failed)))
        self._limiter = RateLimiter(self._clock, self.state.rate, settings.burst_ms)
        self._waiting_stores = WaitingStores(self._limiter.timer, type(receiver).__module__, launch.stream_id)
        self._pusher = BlockPusher(launch, settings, blocks, driver, self._limiter, self.take)
        # The hot path of a record: no call in between.
        self.store = self._pusher.generator.add_data
        self.store_all = self._pusher.store_all
        self.store_arrow = self._pusher.store_arrow
        self.report_source = self._pusher.report_source
        receiver._penstock_attach(self)

    # -- state --

    @property
    def is_terminated(self) -> bool:
        """Whether the receiver was stopped for good and everything it took is stored or lost."""
        return self._terminated.is_set()

    @property
    def is_deregistered(self) -> bool:
        """Whether the driver knows that the receiver has ended and everything it took is stored or lost."""
        return isinstance(self.state.state, Terminated) and self.state.state.is_deregistered

    def await_end(self, timeout_s: float | None = None) -> bool:
        """Wait until the receiver has stopped for good; return whether it has."""
        return self._terminated.wait(timeout_s)

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """As ``await_end``; raises the error that stopped the receiver."""
        terminated, state = self.await_end(timeout_s), self.state.state
        if terminated and isinstance(state, Terminated) and state.error is not None:
            raise state.error
        return terminated

    # -- commands: from the driver and from the receiver --

    def start(self) -> None:
        """Register and start the receiver; return when ``onStart`` has. ``await_termination`` raises its errors."""
        self.take(lifecycle.StartRequested())

    def start_soon(self) -> None:
        """Start on another thread, so that the receiver's code cannot block the caller."""
        EngineThread("receiver start", self.start).start()

    def report_error(self, message: str, error: BaseException | None = None) -> None:
        """Report an error to the driver; the receiver continues."""
        self.take(lifecycle.Report(message, error))

    def restart(self, message: str, error: BaseException | None = None, delay_ms: int | None = None) -> None:
        """Call ``onStop``, and after a delay ``onStart``. Returns at once; ignored while a restart is under way."""
        self.take(lifecycle.RestartRequested(message, error, delay_ms))

    def stop_soon(self, message: str, error: BaseException | None = None) -> None:
        """Stop as ``stop`` does, on another thread: for callers that the stop itself waits for."""
        self.take(lifecycle.StopRequested(message, error))

    def stop(self, message: str, error: BaseException | None = None) -> None:
        """Stop for good: call ``onStop``, flush the buffer, call ``on_drained``, notify the driver. Idempotent."""
        self.stop_soon(message, error)
        self._terminated.wait()

    # -- events and effects --

    def take(self, event: Event) -> None:
        """Apply an event to the life cycle of the receiver and carry out the effects."""
        if isinstance(event, lifecycle.Tick):
            self._waiting_stores.check()
        with self._lock:
            before = self.state
            self.state, effects = step(before, event, self._clock.monotonic_ms())
            self._apply(before, self.state)
        self._carry_out(effects)

    def _apply(self, before: RunningReceiver, after: RunningReceiver) -> None:
        """Apply the changes of the record to limiter, generator, threads and waits; returns at once."""
        if after.intake is not before.intake:
            if after.intake is Intake.OPEN:
                self._limiter.start()
            else:
                self._limiter.stop()
            self._pusher.generator.refuse(after.intake is Intake.CLOSED)
        if after.rate != before.rate:
            self._limiter.update(after.rate)
        if (is_full := after.disk_waits > 0) != (before.disk_waits > 0):
            self._limiter.timer.disk_full(is_full)
        if after.is_paused != before.is_paused:
            self._limiter.pause(after.is_paused)
        if after.watches_threads and not before.watches_threads:
            self._thread_errors.start()
        elif before.watches_threads and not after.watches_threads:
            self._thread_errors.stop()
        if after.is_ending and not before.is_ending:
            self._ending.set()
            self._pusher.end_waits()
        if isinstance(after.state, Terminated) and not self._terminated.is_set():
            self._terminated.set()
            self._clock.wake()

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        """Carry out effects that may take time; most end with an event, which has further effects."""
        for effect in effects:
            match effect:
                case lifecycle.Log():
                    getattr(self._log, effect.level)(effect.event, **effect.context)
                case lifecycle.Register():
                    self.take(self._register())
                case lifecycle.Call():
                    self.take(self._call(effect.method))
                case lifecycle.Flush(is_final=True):
                    self._pusher.stop()
                    generator = self._pusher.generator
                    self.take(lifecycle.Flushed(generator.flushed_records, generator.dropped_records))
                case lifecycle.Flush():
                    self._pusher.generator.flush()
                    self.take(lifecycle.Flushed())
                case lifecycle.Deregister():
                    self.take(self._deregister(effect))
                case lifecycle.AwaitRestart():
                    self._clock.wait_for(effect.delay_ms, self._ending)
                    self.take(lifecycle.RestartDelayOver())
                case lifecycle.AwaitDeadline():
                    self._clock.wait_for(effect.delay_ms, self._terminated)
                    self.take(lifecycle.Tick())
                case lifecycle.NotifyRate():
                    self._notify_rate()
                case lifecycle.Report():
                    message = with_error(effect.message, effect.error)
                    # The driver logs it as a warning.
                    self._log.info("receiver error reported", message=message)
                    self._notify(ReportError(self.stream_id, self._launch.epoch, message, _trace(effect.error)))
                case lifecycle.OnThread():
                    name = effect.name
                    EngineThread(name, partial(self._carry_out, effect.effects)).start()

    def _register(self) -> Event:
        try:
            if not self.state.is_registered:
                self._pusher.start()
            answer = self._driver.ask(self._launch, Registered)
            if not answer.accepted:
                raise ReceiverRefusedError(f"the driver refused to start receiver {self.stream_id}: {answer.reason}")
        except BaseException as error:
            return lifecycle.RegistrationAnswered(error)
        self.position = answer.position or {}
        return lifecycle.RegistrationAnswered(desired=answer.desired)

    def _call(self, name: str) -> Event:
        """Call a method: ``onStart`` here, others on a thread of their own, awaited until the stop timeout."""
        over = threading.Event()
        raised = list[BaseException]()

        def call() -> None:
            # The author's code may raise anything: that ends this receiver and nothing else.
            contain_errors(lambda: getattr(self._receiver, name)(), raised.append)
            over.set()
            self._clock.wake()

        if name == "onStart":
            call()
        else:
            EngineThread(f"receiver {name}", call).start()
            if self._stop_timeout_ms and not over.is_set():
                self._clock.wait_for(self._stop_timeout_ms, over)
            else:
                over.wait()
        return lifecycle.CallReturned(next(iter(raised), None), in_time=over.is_set())

    def _deregister(self, effect: lifecycle.Deregister) -> Event:
        values: dict[str, Any] = asdict(effect, recurse=False) | {"error": _trace(effect.error)}
        # A driver that never answered would cost another timeout.
        return lifecycle.Deregistered(self._notify(DeregisterReceiver(self.stream_id, self._launch.epoch, **values)))

    def _notify_rate(self) -> None:
        rate = self.state.rate
        self._log.debug("rate limit changed", rate=rate)
        on_error = partial(self.report_error, "on_rate_change failed")
        contain_errors(partial(self._receiver.on_rate_change, rate), on_error)

    def _notify(self, message: ReportError | DeregisterReceiver) -> bool:
        """Notify the driver and return whether it was reached; otherwise the end of the task notifies it."""
        try:
            self._driver.ask(evolve(message, log_lines=recent_lines()) if message.error else message, Reply)
            return True
        except PenstockError as error:
            self._log.warning("driver not notified", message=type(message).__name__, reason=text_of(error))
            return False


def _trace(error: object) -> str:
    """The traceback of an exception, or the text of any other value passed as an error."""
    text = "" if error is None else text_of(error)
    return traceback_of(error) if isinstance(error, BaseException) else text
