"""``ReceiverHost``: runs a receiver with its supervisor in this process.

For programs that take blocks, tests and other engines. It owns the current supervisor, and the thread that relaunches
a receiver given as a function.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, Self, TypeVar, runtime_checkable

from penstock.blocks.block import Block, StoredBlock
from penstock.blocks.received_block_handler import ReceivedBlockHandler
from penstock.conf import Settings
from penstock.errors import ReceiverFailedError, ReceiverStuckError, StreamingStateError, summary_of
from penstock.listen.events import PastError, ReceiverInfo
from penstock.rate.rate_limits import lowest
from penstock.receive.messages import (
    AddBlocks,
    DeregisterReceiver,
    Registered,
    RegisterReceiver,
    ReportError,
    UpdateRateLimit,
)
from penstock.receive.receiver import Receiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.receive.relaunch_policy import RelaunchPolicy
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.log import get_logger, set_level
from penstock.runtime.threads import EngineThread
from penstock.runtime.tracebacks import traceback_of
from penstock.wire.json_codec import Reply

log = get_logger("receiver_host")

T = TypeVar("T")
R = TypeVar("R", bound=Reply)

# Maximum number of past errors, and of past ends, that are available.
_LAST = 1000
# Maximum number of past errors in an info.
_RECENT = 20


@runtime_checkable
class BlockSink(ReceivedBlockHandler, Protocol):
    """Takes a receiver's blocks in two steps: ``store`` writes a block, then ``accept`` makes stored blocks count."""

    def accept(self, blocks: Sequence[StoredBlock]) -> object:
        """Accept stored blocks: all, or none if it raises. One call at a time; a retry repeats the same blocks."""


class ReceiverHost(Generic[T]):
    """Run a receiver and hand its blocks to a sink. Thread-safe.

    The receiver behaves as on an executor: records are rate-limited, buffered and cut into blocks, an error of its
    ``receive`` restarts it with back-off, a stop flushes the buffer. A ``with`` block starts and stops the receiver.

    An instance runs once. Given a function, the host calls it for another instance whenever one has ended, with
    back-off, as the driver relaunches receivers. When the failure budget is exceeded, the receiver is given up, and
    ``failure`` says why, unless ``spark.penstock.receiver.onFailure`` is ``restart``.

    Example::

        with ReceiverHost(receiver, lambda block: rows.extend(block.records())) as host:
            host.await_termination(60)

    Args:
        receiver: a new instance for each host, or a function that makes one for each launch.
        sink: called with each block, in order, one at a time, on a thread that stores. The block is accepted when it
            returns. When it raises, the block is offered again, ``spark.penstock.receiver.storeRetries`` times; then
            the store fails. Or a ``BlockSink``, which takes blocks in two steps.
        conf: configuration by full key, such as ``spark.streaming.blockInterval``. With a function
            ``spark.penstock.log.level`` applies to the process.
        stream_id: the receiver's ``streamId``.
        clock: the system's by default; a ``ManualClock`` for tests that depend on time.

    Raises:
        ConfigurationError: a value in ``conf`` is not valid.
        StreamingStateError: the receiver has another host.
    """

    def __init__(
        self,
        receiver: Receiver[T] | Callable[[], Receiver[T]],
        sink: Callable[[Block], object] | BlockSink,
        conf: Mapping[str, str] | None = None,
        stream_id: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self._settings = Settings.parse(conf or {})
        self._clock = clock or SystemClock()
        self._sink = sink if isinstance(sink, BlockSink) else _InMemory(sink)
        self._driver = _SinkDriver(self._sink, self._answer_supervisor)
        self._stream_id = stream_id
        # Block ids contain it: each launch of a receiver given as a function has another one.
        self._epoch = 0
        # Guards the desired state and the current supervisor.
        self._lock = threading.Lock()
        self._rate = lowest(self._settings.initial_rate_per_s, self._settings.max_rate_per_s)
        self._pauses = set[str]()
        self._desired = UpdateRateLimit(self._rate, 0)
        self._errors: deque[PastError] = deque(maxlen=_LAST)
        self._ends: deque[str] = deque(maxlen=_LAST)
        #: The number of starts, those of restarts included.
        self.starts = 0
        # The relaunches of a receiver given as a function: the failures that count, and the end of the delays.
        self._make = None if isinstance(receiver, Receiver) else receiver
        if self._make is not None and self._settings.is_set("log_level"):
            set_level(self._settings.log_level)
        self._policy = RelaunchPolicy(self._settings)
        self._failures_ms: tuple[float, ...] = ()
        #: Why the receiver is given up; empty while it is not.
        self.failure = ""
        self._stopping = threading.Event()
        self._thread = EngineThread("receiver host", self._run_launches)
        self._supervisor = self._supervise(receiver) if isinstance(receiver, Receiver) else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the receiver; returns when its ``onStart`` has returned. An error of it is in ``errors``.

        A receiver given as a function is launched on another thread: the call returns at once.

        Raises:
            StreamingStateError: such a host was started before.
        """
        if self._make is None:
            self.supervisor.start()
        elif self._thread.ident:
            raise StreamingStateError("a receiver host starts once: make a new one")
        else:
            self._thread.start()

    def stop(self, message: str = "stopped by its host", timeout_s: float | None = None) -> bool:
        """Stop the receiver, hand what is buffered to the sink and return then. Idempotent.

        Args:
            message: the reason, for logs and ``ends``.
            timeout_s: how long to wait beyond ``spark.penstock.receiver.stopTimeout``, the timeout of ``onStop``;
                ``None`` for no limit.

        Returns:
            Whether the receiver has ended.
        """
        with self._lock:
            self._stopping.set()
            supervisor = self._supervisor
        self._clock.wake()
        if supervisor is not None:
            supervisor.stop_soon(message)
        limit_s = None if timeout_s is None else timeout_s + self._settings.stop_timeout_ms / 1000
        if self._make is None:
            return self.supervisor.await_end(limit_s)
        return not self._thread.ident or self._thread.finish(limit_s)

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until the receiver has ended, by ``stop`` or by itself; return whether it has.

        Raises:
            BaseException: the error that ended it; a ReceiverFailedError if it was given up.
        """
        if self._make is None:
            return self.supervisor.await_termination(timeout_s)
        ended = self._thread.finish(timeout_s)
        if ended and self.failure:
            raise ReceiverFailedError(self.failure)
        return ended

    def update_rate(self, rate: float | None) -> None:
        """Set the rate limit, records/s; ``None`` leaves only ``spark.streaming.receiver.maxRate``."""
        self._rate = rate
        self._send_desired_state()

    def pause(self, reason: str = "") -> None:
        """Make every store of the receiver wait until ``resume`` is called with the same reason."""
        self._pauses.add(reason)
        self._send_desired_state()

    def resume(self, reason: str = "") -> None:
        """End the pause for this reason."""
        self._pauses.discard(reason)
        self._send_desired_state()

    @property
    def supervisor(self) -> ReceiverSupervisor:
        """The supervisor of the current instance.

        Raises:
            StreamingStateError: the receiver was not launched yet.
        """
        if self._supervisor is None:
            raise StreamingStateError("the receiver was not launched yet")
        return self._supervisor

    @property
    def rate_limit(self) -> float | None:
        """Records/s in force, ``None`` for no limit."""
        return self._rate if self._supervisor is None else self._supervisor.state.rate

    @property
    def is_terminated(self) -> bool:
        """Whether the receiver has ended for good and everything it stored is with the sink or lost."""
        if self._make is None:
            return self.supervisor.is_terminated
        return bool(self._thread.ident) and not self._thread.is_alive()

    @property
    def stored_records(self) -> int:
        """The number of records that the sink has taken from the current instance."""
        return 0 if self._supervisor is None else self._supervisor.state.stored_records

    @property
    def errors(self) -> list[str]:
        """The last 1,000 errors that the receiver has reported or failed with, one of ``onStart`` included."""
        return [error.message for error in list(self._errors)]

    @property
    def tracebacks(self) -> list[str]:
        """The traceback of each of these errors, empty for one without."""
        return [error.error for error in list(self._errors)]

    @property
    def ends(self) -> list[str]:
        """Why the receiver has stopped, each time: the last 1,000 restarts, and its ends."""
        return list(self._ends)

    @property
    def info(self) -> ReceiverInfo:
        """The receiver as listeners see it; only its state and its errors are known here."""
        supervisor, recent_errors = self._supervisor, tuple(self._errors)[-_RECENT:]
        last = recent_errors[-1] if recent_errors else PastError(-1, "")
        return ReceiverInfo(
            self._stream_id,
            name="" if supervisor is None else supervisor.name,
            active=supervisor is not None and supervisor.state.is_started,
            location="",
            executorId="",
            lastErrorMessage=last.message,
            lastError=last.error,
            lastErrorTime=last.time,
            recent_errors=recent_errors,
            given_up=bool(self.failure),
        )

    # -- the driver of a sink --

    def _send_desired_state(self) -> None:
        with self._lock:
            self._desired = UpdateRateLimit(self._rate, self._desired.number + 1, bool(self._pauses))
            desired, supervisor = self._desired, self._supervisor
        # A supervisor ignores one that another call has overtaken.
        if supervisor is not None:
            supervisor.take(desired)

    def _answer_supervisor(self, message: object) -> Reply:
        """Answer a message of the supervisor that concerns no blocks."""
        match message:
            case RegisterReceiver():
                self.starts += 1
                return Registered(desired=self._desired if self._desired.number else None)
            case ReportError():
                self._note_error(message.message, message.error)
            case DeregisterReceiver():
                self._ends.append(message.message)
                # A restart has reported its error before.
                if message.error and message.ended:
                    self._note_error(message.message, message.error)
                if message.error and self._make is not None and not self._stopping.is_set():
                    self._fail(message.message)
        return Reply()

    def _note_error(self, message: str, error: str) -> None:
        self._errors.append(PastError(self._clock.now_ms(), message, error))

    # -- relaunches --

    def _supervise(self, receiver: Receiver[T]) -> ReceiverSupervisor:
        launch = RegisterReceiver(self._stream_id, self._epoch, type(receiver).__name__, port=0)
        return ReceiverSupervisor(receiver, launch, self._settings, self._driver, self._sink, self._clock)

    def _run_launches(self) -> None:
        relaunches = 0
        while not self._stopping.is_set():
            began_ms = self._clock.monotonic_ms()
            self._run_launch()
            if self.failure or self._stopping.is_set():
                return
            relaunches = self._policy.relaunches_in_a_row(relaunches, self._clock.monotonic_ms() - began_ms)
            delay_ms = self._policy.back_off_ms(relaunches, f"{id(self)}/{self._epoch}")
            relaunches += 1
            reason = self._ends[-1] if self._ends else ""
            log.warning("receiver ended, relaunch scheduled", delay_ms=round(delay_ms), reason=reason)
            self._clock.wait_for(delay_ms, self._stopping)

    def _run_launch(self) -> None:
        """Run one instance to its end."""
        assert self._make is not None
        self._epoch += 1
        try:
            supervisor = self._supervise(self._make())
        # The author's code may raise anything: that fails the launch and nothing else.
        except BaseException as error:
            message = f"the receiver cannot be created: {summary_of(error)}"
            self._ends.append(message)
            self._note_error(message, traceback_of(error))
            self._fail(message)
            return
        with self._lock:
            self._supervisor = supervisor
            is_stopping = self._stopping.is_set()
        if is_stopping:
            supervisor.stop_soon("stopped by its host")
        else:
            supervisor.start_soon()
        try:
            supervisor.await_termination()
        except ReceiverStuckError as error:
            # Its threads still run: a second instance beside them might receive the same records.
            self.failure = str(error)
        except BaseException as error:
            log.info("receiver failed", reason=summary_of(error))

    def _fail(self, message: str) -> None:
        """Count a failure; give the receiver up if it was one too many."""
        now_ms, policy = self._clock.monotonic_ms(), self._policy
        self._failures_ms = policy.with_failure(self._failures_ms, now_ms)
        settings = self._settings
        relaunches_always = settings.is_set("on_receiver_failure") and settings.on_receiver_failure == "restart"
        if self.failure or relaunches_always or not policy.is_exceeded(self._failures_ms, now_ms):
            return
        self.failure = f"the receiver is given up: {policy.exceeded_message(message)}"
        log.error("receiver given up", reason=self.failure)
        if self._supervisor is not None:
            self._supervisor.stop_soon("given up")


class _InMemory:
    """Holds blocks in memory until the sink has taken them."""

    def __init__(self, sink: Callable[[Block], object]) -> None:
        self._sink = sink
        self._stored: dict[str, Block] = {}

    def store(self, block: Block) -> StoredBlock:
        self._stored[block.block_id] = block
        return block.stored("", block.table.nbytes)

    def delete(self, block_ids: Iterable[str]) -> None:
        for block_id in block_ids:
            self._stored.pop(block_id, None)

    def accept(self, blocks: Sequence[StoredBlock]) -> None:
        for block in blocks:
            # A retry: the sink has taken the first blocks of the list.
            if block.block_id in self._stored:
                self._sink(self._stored[block.block_id])
                del self._stored[block.block_id]


class _SinkDriver:
    """Answers a supervisor in the place of a driver: blocks go to the sink, reports to the host."""

    def __init__(self, blocks: BlockSink, answer: Callable[[object], Reply]) -> None:
        self._blocks = blocks
        self._answer = answer
        # One call of the sink at a time.
        self._accepting = threading.Lock()

    def ask(self, message: object, reply_kind: type[R]) -> R:
        if isinstance(message, AddBlocks):
            with self._accepting:
                self._blocks.accept(message.blocks)
        answer = self._answer(message)
        return answer if isinstance(answer, reply_kind) else reply_kind()
