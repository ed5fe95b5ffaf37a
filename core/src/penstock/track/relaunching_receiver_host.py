"""``RelaunchingReceiverHost``: launches a receiver in this process and relaunches it when it ends, without Spark.

For engines other than Penstock's own, such as a Structured Streaming source. The receiver life cycle decides what it
decides for the ReceiverTracker: back-off, restart budget, giving up, the rate and pause in force. This class is the
shell: one thread that runs launch after launch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from penstock.blocks.block import StoredBlock
from penstock.blocks.received_block_handler import ReceivedBlockHandler
from penstock.conf import Settings
from penstock.errors import ReceiverStuckError, StreamingStateError, summary_of
from penstock.listen.events import Event, ReceiverInfo
from penstock.receive.messages import AddBlocks, RegisterReceiver, StopReceiver, UpdateRateLimit
from penstock.receive.receiver import Receiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.log import get_logger, set_level
from penstock.runtime.threads import EngineThread
from penstock.runtime.tracebacks import traceback_of
from penstock.track import lifecycle_messages as lifecycle
from penstock.track.receiver_lifecycle import no_launch, step
from penstock.track.receiver_tracking_info import new_record
from penstock.wire.json_codec import Reply

log = get_logger("relaunching_receiver_host")

R = TypeVar("R", bound=Reply)

_CONF = {"spark.penstock.receiver.onFailure": "fail-application"}


class BlockSink(ReceivedBlockHandler, Protocol):
    """Where a host's blocks go: ``store`` writes a block, ``accept`` makes stored blocks count, in this order."""

    def accept(self, blocks: Sequence[StoredBlock]) -> object:
        """Accept stored blocks: all, or none if it raises. One call at a time; a retry repeats the same blocks."""
        ...


class RelaunchingReceiverHost:
    """Run a receiver launch after launch and give its blocks to a sink. Thread-safe.

    A ``ReceiverHost`` runs one instance of a receiver until it ends; here the next instance follows. The receiver
    behaves as in a streaming program: rate-limited, restarted, and relaunched as a new instance when it ends.
    ``spark.penstock.receiver.onFailure`` is ``fail-application`` here unless ``conf`` sets it: when the restart budget
    is used up, the receiver is given up, and ``failure`` says why.

    Args:
        name: of the receiver, for events and logs.
        make: creates the receiver; called for each launch.
        blocks: stores and accepts its blocks. When ``accept`` has returned, ``store_all`` returns.
        conf: configuration by full key, such as ``spark.streaming.blockInterval``. ``spark.penstock.log.level`` applies
            to the process.
        on_event: called with each ``ReceiverStarted``, ``ReceiverError`` and ``ReceiverStopped``, on any thread.
        clock: the system's by default.

    Raises:
        ConfigurationError: a value in ``conf`` is not valid.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Receiver[Any]],
        blocks: BlockSink,
        conf: Mapping[str, str] | None = None,
        on_event: Callable[[Event], object] = lambda _event: None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = Settings.parse({**_CONF, **(conf or {})})
        if self._settings.is_set("log_level"):
            set_level(self._settings.log_level)
        self._make, self._blocks, self._on_event = make, blocks, on_event
        self._clock = clock or SystemClock()
        self._record = new_record(0, name, self._settings)
        # Guards the record; effects are carried out without it.
        self._lock = threading.Lock()
        self._supervisor: ReceiverSupervisor | None = None
        # The delay before the next launch; None when none follows.
        self._delay_ms: float | None = None
        self._stopping = threading.Event()
        self._failure = ""
        self._thread = EngineThread("receiver host", self._run)

    def start(self) -> None:
        """Launch the receiver on another thread; returns at once.

        Raises:
            StreamingStateError: it was started before.
        """
        if self._thread.ident:
            raise StreamingStateError("a receiver host starts once: make a new one")
        self._thread.start()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Stop the receiver, store what is buffered, and return then. Idempotent.

        Args:
            timeout_s: how long to wait beyond ``spark.penstock.receiver.stopTimeout``, the timeout of ``onStop``;
                ``None`` for no limit.

        Returns:
            Whether the receiver has ended.
        """
        self._stopping.set()
        self._take(lifecycle.Stop())
        self._clock.wake()
        if timeout_s is not None:
            timeout_s += self._settings.stop_timeout_ms / 1000
        return not self._thread.ident or self._thread.finish(timeout_s)

    def update_rate(self, rate: float | None) -> None:
        """Set the rate limit, records/s; ``None`` leaves only ``spark.streaming.receiver.maxRate``."""
        self._take(lifecycle.RateLimit(rate))

    def pause(self, reason: str) -> None:
        """Make every store wait until ``resume`` is called with the same reason."""
        self._take(lifecycle.Pause(reason, applies=True))

    def resume(self, reason: str) -> None:
        """End the pause for this reason."""
        self._take(lifecycle.Pause(reason, applies=False))

    @property
    def info(self) -> ReceiverInfo:
        """The receiver as listeners see it."""
        return self._record.info

    @property
    def rate_limit(self) -> float | None:
        """Records/s in force, ``None`` for no limit."""
        return self._record.desired.rate if self._supervisor is None else self._supervisor.rate_limit

    @property
    def failure(self) -> str:
        """Why the receiver is given up; empty while it is not."""
        return self._failure

    @property
    def is_terminated(self) -> bool:
        """Whether the receiver was stopped or given up, and everything it stored is with the sink or lost."""
        return bool(self._thread.ident) and not self._thread.is_alive()

    # -- the receiver's driver --

    def ask(self, message: object, reply_kind: type[R]) -> R:
        """Answer a message of the supervisor."""
        answer: object
        match message:
            case AddBlocks():
                answer = self._accept(message)
            case RegisterReceiver():
                answer = self._take(lifecycle.Registration(message))
            case _:
                answer = self._take(message)  # type: ignore[arg-type]  # it sends no others than ReportError, DeregisterReceiver
        return answer if isinstance(answer, reply_kind) else reply_kind()

    def _accept(self, message: AddBlocks) -> Reply:
        launch = self._record.launch
        if launch is None or launch.epoch != message.epoch:
            return Reply(accepted=False, reason=no_launch(message))
        self._blocks.accept(message.blocks)
        return Reply()

    # -- launches --

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._delay_ms = None
            try:
                supervisor = self._supervisor_of(self._make())
            # The author's code may raise anything: that fails the launch and nothing else.
            except BaseException as error:
                self._take(lifecycle.LaunchFailed(f"it cannot be created: {summary_of(error)}", traceback_of(error)))
            else:
                self._take(lifecycle.LaunchDue())
                self._launch(supervisor)
            if self._delay_ms is None:
                break
            self._clock.wait_for(self._delay_ms, self._stopping)
        if self._record.is_given_up and not self._failure:
            self._failure = self._record.last_end.message

    def _supervisor_of(self, receiver: Receiver[Any]) -> ReceiverSupervisor:
        """The supervisor of the next launch."""
        epoch = self._record.epoch + 1
        launch = RegisterReceiver(self._record.stream_id, epoch, type(receiver).__name__, port=0)
        return ReceiverSupervisor(receiver, launch, self._settings, self, self._blocks, self._clock)

    def _launch(self, supervisor: ReceiverSupervisor) -> None:
        """Run one launch to its end."""
        self._supervisor, epoch = supervisor, self._record.epoch
        if self._stopping.is_set():
            supervisor.stop_soon("stopped by its host")
        else:
            supervisor.start_soon()
        reason = trace = ""
        try:
            supervisor.await_termination()
        except ReceiverStuckError as error:
            # Its threads still run: a second instance beside them might receive the same records.
            reason = self._failure = str(error)
        except BaseException as error:
            reason, trace = summary_of(error), traceback_of(error)
        self._take(lifecycle.JobEnded(epoch, reason, trace))
        if self._failure:
            self._delay_ms = None

    # -- the life cycle --

    def _take(self, event: lifecycle.LifecycleEvent) -> object:
        """Take a step and carry out its effects; return the answer to a message."""
        with self._lock:
            self._record, effects = step(self._record, event, self._clock.monotonic_ms(), self._clock.now_ms())
        answer: object = None
        for effect in effects:
            match effect:
                case lifecycle.Answer():
                    answer = effect.message
                case lifecycle.Send():
                    self._send(effect.message)
                case lifecycle.CancelJob():
                    self._send(StopReceiver("cancelled"))
                case lifecycle.WakeUp():
                    self._delay_ms = effect.delay_ms
                case lifecycle.FailApplication():
                    self._failure = effect.message
                case lifecycle.Post():
                    self._on_event(effect.event)
                case lifecycle.Log():
                    getattr(log, effect.level)(effect.event, receiver=self._record.name, **effect.context)
                case lifecycle.StartJob() | lifecycle.Connect():
                    pass
        return answer

    def _send(self, message: object) -> None:
        supervisor = self._supervisor
        if supervisor is None:
            return
        match message:
            case StopReceiver():
                supervisor.stop_soon(message.message)
            case UpdateRateLimit():
                supervisor.obey(message)
