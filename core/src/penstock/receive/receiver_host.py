"""``ReceiverHost``: runs a receiver in any process, without Spark. It is the receiver's driver, too."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from attrs import evolve, frozen

from penstock.blocks.block import Block, StoredBlock
from penstock.blocks.received_block_handler import ReceivedBlockHandler
from penstock.conf import Settings
from penstock.listen.events import PastError, ReceiverInfo, SourceStatus, StoreTimes
from penstock.receive import messages
from penstock.receive.receiver import Receiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.runtime.clock import Clock, SystemClock
from penstock.wire.json_codec import Reply

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

    Example::

        with ReceiverHost(receiver, lambda block: rows.extend(block.records())) as host:
            host.await_termination(60)

    Args:
        receiver: a new instance for each host.
        sink: called with each block, in order, one at a time, on a thread that stores. The block is accepted when it
            returns. When it raises, the block is offered again, ``spark.penstock.receiver.storeRetries`` times; then
            the store fails. Or a ``BlockSink``, which takes blocks in two steps.
        conf: configuration by full key, such as ``spark.streaming.blockInterval``.
        stream_id: the receiver's ``streamId``.
        clock: the system's by default; a ``ManualClock`` for tests that depend on time.
        epoch: part of the ids of blocks: another number for each host whose blocks go to the same ``BlockSink``.
        position: the receiver's ``position`` at its first start.
        on_failure: called with the reason whenever an error has stopped the receiver: before a restart, and at the end.

    Raises:
        ConfigurationError: a value in ``conf`` is not valid.
        StreamingStateError: the receiver has another host.
    """

    def __init__(
        self,
        receiver: Receiver[T],
        sink: Callable[[Block], object] | BlockSink,
        conf: Mapping[str, str] | None = None,
        stream_id: int = 0,
        clock: Clock | None = None,
        *,
        epoch: int = 0,
        position: Mapping[str, Any] | None = None,
        on_failure: Callable[[str], object] | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        settings = Settings.parse(conf or {})
        self._stop_timeout_ms = settings.stop_timeout_ms
        self._sink = sink if isinstance(sink, BlockSink) else _InMemory(sink)
        self._on_failure = on_failure
        #: The receiver's position: the merged metadata of its accepted blocks.
        self.position: dict[str, Any] = dict(position or {})
        self._errors: deque[PastError] = deque(maxlen=_LAST)
        self._ends: deque[str] = deque(maxlen=_LAST)
        #: The number of starts, those of restarts included.
        self.starts = 0
        self._source: SourceStatus | None = None
        self._times: StoreTimes | None = None
        launch = messages.RegisterReceiver(stream_id, epoch, type(receiver).__name__, port=0)
        self._name = f"{launch.receiver_type}-{stream_id}"
        driver = _OwnDriver(self._reply_to)
        #: The supervisor of the receiver.
        self.supervisor = ReceiverSupervisor(receiver, launch, settings, driver, self._sink, self._clock)
        # Guards the desired state, and whether the receiver has asked for it.
        self._lock = threading.Lock()
        self._pauses = set[str]()
        self._desired = messages.UpdateRateLimit(self.supervisor.state.rate, 0)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the receiver; returns when its ``onStart`` has returned. An error of it is in ``errors``."""
        self.supervisor.start()

    def stop(self, message: str = "stopped by its host", timeout_s: float | None = None) -> bool:
        """Stop the receiver, hand what is buffered to the sink, and return whether the receiver has ended. Idempotent.

        Args:
            message: the reason, for logs and ``ends``.
            timeout_s: how long to wait beyond ``spark.penstock.receiver.stopTimeout``, the timeout of ``onStop``;
                ``None`` for no limit.
        """
        self.supervisor.stop_soon(message)
        return self.supervisor.await_end(None if timeout_s is None else timeout_s + self._stop_timeout_ms / 1000)

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until the receiver has ended, by ``stop`` or by itself; return whether it has, or raise its error."""
        return self.supervisor.await_termination(timeout_s)

    def update_rate(self, rate: float | None) -> None:
        """Set the rate limit, records/s; ``None`` leaves only ``spark.streaming.receiver.maxRate``."""
        self._send_desired_state(rate=rate)

    def pause(self, reason: str = "") -> None:
        """Make every store of the receiver wait until ``resume`` is called with the same reason."""
        self._pauses.add(reason)
        self._send_desired_state()

    def resume(self, reason: str = "") -> None:
        """End the pause for this reason."""
        self._pauses.discard(reason)
        self._send_desired_state()

    @property
    def rate_limit(self) -> float | None:
        """Records/s in force, ``None`` for no limit."""
        return self.supervisor.state.rate if self.starts else self._desired.rate

    @property
    def is_terminated(self) -> bool:
        """Whether the receiver has ended for good and everything it stored is with the sink or lost."""
        return self.supervisor.is_terminated

    @property
    def stored_records(self) -> int:
        """The number of records that the sink has taken."""
        return self.supervisor.state.stored_records

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
        """Why the receiver has stopped, each time: the last 1,000 restarts, and its end."""
        return list(self._ends)

    @property
    def info(self) -> ReceiverInfo:
        """The receiver as listeners see it; only its state and its errors are known here."""
        recent_errors = tuple(self._errors)[-_RECENT:]
        last = recent_errors[-1] if recent_errors else PastError(-1, "")
        return ReceiverInfo(
            self.supervisor.stream_id,
            name=self._name,
            active=self.supervisor.state.is_started,
            location="",
            executorId="",
            lastErrorMessage=last.message,
            lastError=last.error,
            lastErrorTime=last.time,
            recent_errors=recent_errors,
            source=self._source,
            times=self._times,
        )

    def _send_desired_state(self, **changes: Any) -> None:
        with self._lock:
            number, paused = self._desired.number + 1, bool(self._pauses)
            desired = self._desired = evolve(self._desired, number=number, paused=paused, **changes)
            is_registered = self.starts > 0
        # Before, the answer to the registration has it: a receiver learns its rate when it has started. A supervisor
        # ignores one that another call has overtaken.
        if is_registered:
            self.supervisor.take(desired)

    def _reply_to(self, message: object) -> Reply:
        """Answer the receiver, and note what it reports."""
        match message:
            case messages.RegisterReceiver():
                with self._lock:
                    self.starts += 1
                    desired = self._desired if self._desired.number else None
                    return messages.Registered(desired=desired, position=self.position)
            case messages.AddBlocks():
                self._source = message.source or self._source
                self._times = message.times or self._times
                if message.blocks:
                    self._sink.accept(message.blocks)
                    for block in message.blocks:
                        self.position |= block.metadata or {}
            case messages.ReportError():
                self._errors.append(PastError(self._clock.now_ms(), message.message, message.error))
            case messages.DeregisterReceiver():
                self._ends.append(message.message)
                # A restart has reported its error before.
                if message.error and message.ended:
                    self._errors.append(PastError(self._clock.now_ms(), message.message, message.error))
                if message.error and self._on_failure is not None:
                    self._on_failure(message.message)
        return Reply()


@frozen
class _OwnDriver:
    """The host as the driver of its receiver."""

    answer: Callable[[object], Reply]

    def ask(self, message: object, reply_kind: type[R]) -> R:
        reply = self.answer(message)
        return reply if isinstance(reply, reply_kind) else reply_kind()


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
