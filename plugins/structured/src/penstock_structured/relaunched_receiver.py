"""``RelaunchedReceiver``: runs a receiver in the source's process, a new instance whenever one has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from penstock import BlockSink, PastError, Receiver, ReceiverHost
from penstock.spi import (
    EngineThread,
    ReceiverStuckError,
    RelaunchPolicy,
    Settings,
    get_logger,
    set_level,
    summary_of,
)

log = get_logger("structured")


class RelaunchedReceiver:
    """Relaunch a receiver with back-off, as the driver of a stream does, until it has failed too often. Thread-safe.

    Each launch is a host of its own. When the failure budget is exceeded, the receiver is given up, unless
    ``spark.penstock.receiver.onFailure`` is ``restart``.

    Args:
        make: makes the instance of a launch.
        sink: takes the blocks of all launches.
        conf: configuration by full key; ``spark.penstock.log.level`` applies to the process.

    Raises:
        ConfigurationError: a value in ``conf`` is not valid.
    """

    def __init__(self, make: Callable[[], Receiver[Any]], sink: BlockSink, conf: Mapping[str, str]) -> None:
        self._make = make
        self._sink = sink
        self._conf = conf
        self._settings = Settings.parse(conf)
        if self._settings.is_set("log_level"):
            set_level(self._settings.log_level)
        self._policy = RelaunchPolicy(self._settings)
        self._failures_ms: tuple[float, ...] = ()
        #: Why the receiver is given up; empty while it is not.
        self.failure = ""
        # Guards the desired state and the current host.
        self._lock = threading.Lock()
        limits = (self._settings.initial_rate_per_s, self._settings.max_rate_per_s)
        self._rate = min(filter(None, limits), default=None)
        self._pauses = set[str]()
        self._host: ReceiverHost[Any] | None = None
        # The last error of the launches before the current one.
        self._last_error = PastError(-1, "")
        self._epoch = 0
        self._position: Mapping[str, Any] = {}
        self._stopping = threading.Event()
        self._thread = EngineThread("receiver launches", self._run)

    def start(self) -> None:
        """Launch the receiver on another thread, once; the call returns at once."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Stop the receiver, hand what is buffered to the sink and return whether it has ended. Idempotent.

        Args:
            timeout_s: how long to wait beyond ``spark.penstock.receiver.stopTimeout``.
        """
        with self._lock:
            self._stopping.set()
            host = self._host
        if host is not None:
            host.supervisor.stop_soon("the source stops")
        return not self._thread.ident or self._thread.finish(timeout_s + self._settings.stop_timeout_ms / 1000)

    def update_rate(self, rate: float | None) -> None:
        """Set the rate limit of this launch and the next ones, records/s; ``None`` for no limit but the configured."""
        with self._lock:
            self._rate = rate
            host = self._host
        if host is not None:
            host.update_rate(rate)

    def pause(self, reason: str) -> None:
        """Make every store wait until ``resume`` is called with the same reason."""
        with self._lock:
            self._pauses.add(reason)
            host = self._host
        if host is not None:
            host.pause(reason)

    def resume(self, reason: str) -> None:
        """End the pause for this reason."""
        with self._lock:
            self._pauses.discard(reason)
            host = self._host
        if host is not None:
            host.resume(reason)

    @property
    def rate_limit(self) -> float | None:
        """Records/s in force, ``None`` for no limit."""
        return self._rate if self._host is None else self._host.rate_limit

    @property
    def is_active(self) -> bool:
        """Whether a launch receives."""
        return self._host is not None and self._host.info.active

    @property
    def state(self) -> str:
        """``starting``, ``active``, ``restarting`` after an error, ``given up`` or ``stopped``."""
        if self.failure:
            return "given up"
        if self.is_active:
            return "active"
        if self.is_terminated:
            return "stopped"
        return "starting" if self.last_error.time < 0 else "restarting"

    @property
    def is_terminated(self) -> bool:
        """Whether the receiver has ended for good, and everything it stored is with the sink or lost."""
        return bool(self._thread.ident) and not self._thread.is_alive()

    @property
    def last_error(self) -> PastError:
        """The last error that the receiver has reported or failed with; its time is -1 without one."""
        errors = () if self._host is None else self._host.info.recent_errors
        return errors[-1] if errors else self._last_error

    def _run(self) -> None:
        relaunches = 0
        while not self._stopping.is_set():
            began_s = time.monotonic()
            reason = self._run_launch()
            if self.failure or self._stopping.is_set():
                return
            relaunches = self._policy.relaunches_in_a_row(relaunches, (time.monotonic() - began_s) * 1000)
            delay_ms = self._policy.back_off_ms(relaunches, f"{id(self)}/{self._epoch}")
            relaunches += 1
            log.warning("receiver ended, relaunch scheduled", delay_ms=round(delay_ms), reason=reason)
            self._stopping.wait(delay_ms / 1000)

    def _run_launch(self) -> str:
        """Run one instance to its end and return why it has ended."""
        self._epoch += 1
        try:
            host = ReceiverHost(
                self._make(),
                self._sink,
                self._conf,
                epoch=self._epoch,
                position=self._position,
                on_failure=self._count_failure,
            )
        # The author's code may raise anything: that fails the launch and nothing else.
        except BaseException as error:
            reason = f"the receiver cannot be created: {summary_of(error)}"
            self._last_error, self._host = PastError(round(time.time() * 1000), reason), None
            self._count_failure(reason)
            return reason
        with self._lock:
            if self._stopping.is_set():
                return ""
            host.update_rate(self._rate)
            for pause in self._pauses:
                host.pause(pause)
            self._last_error, self._host = self.last_error, host
        host.supervisor.start_soon()
        try:
            host.await_termination()
        except ReceiverStuckError as error:
            # Its threads still run: a second instance beside them might receive the same records.
            self.failure = str(error)
        except BaseException as error:
            log.info("receiver failed", reason=summary_of(error))
        self._position = host.position
        return host.ends[-1] if host.ends else ""

    def _count_failure(self, message: str) -> None:
        """Count a failure; give the receiver up if it was one too many."""
        if self._stopping.is_set():
            return
        settings, now_ms = self._settings, time.monotonic() * 1000
        self._failures_ms = self._policy.with_failure(self._failures_ms, now_ms)
        relaunches_always = settings.is_set("on_receiver_failure") and settings.on_receiver_failure == "restart"
        if self.failure or relaunches_always or not self._policy.is_exceeded(self._failures_ms, now_ms):
            return
        self.failure = f"the receiver is given up: {self._policy.exceeded_message(message)}"
        log.error("receiver given up", reason=self.failure)
        if self._host is not None:
            self._host.supervisor.stop_soon("given up")
