"""``ReceiverHost``: runs a receiver with its supervisor in this process, without a driver and without Spark.

For programs and tests that take blocks from one instance of a receiver; ``RelaunchingReceiverHost`` runs the next
instance when one has ended, for engines. It owns the supervisor and what the receiver reports. Blocks stay in memory
until the sink has taken them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Self, TypeVar

from penstock.blocks.block import Block, StoredBlock
from penstock.conf import Settings
from penstock.receive.messages import AddBlocks, DeregisterReceiver, RegisterReceiver, ReportError
from penstock.receive.receiver import Receiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.runtime.clock import Clock
from penstock.wire.json_codec import Reply

T = TypeVar("T")
R = TypeVar("R", bound=Reply)

# How many of the last errors and ends are available.
_LAST = 1000


class ReceiverHost(Generic[T]):
    """Run a receiver and hand its blocks to a sink. Thread-safe.

    The receiver behaves as on an executor: records are rate-limited, buffered and cut into blocks, an error of its
    ``receive`` restarts it with back-off, a stop flushes the buffer. What only a driver does is missing: a receiver
    that ended, because of an error of its ``onStart`` for example, is not relaunched. As a context manager it starts
    the receiver and stops it at the end.

    Example::

        with ReceiverHost(receiver, lambda block: rows.extend(block.records())) as host:
            host.await_termination(60)

    Args:
        receiver: a new instance for each host.
        sink: called with each block, in order, one at a time, on a thread that stores. When it returns the block counts
            as accepted: ``store_all`` returns and ``on_stored`` is called. When it raises, the block is offered again,
            ``spark.penstock.receiver.storeRetries`` times; then the store fails.
        conf: configuration by full key, such as ``spark.streaming.blockInterval``.
        stream_id: the receiver's ``streamId``.
        clock: the system's by default; a ``ManualClock`` for tests that depend on time.

    Raises:
        ConfigurationError: a value in ``conf`` is not valid.
        StreamingStateError: the receiver has another host.
    """

    def __init__(
        self,
        receiver: Receiver[T],
        sink: Callable[[Block], object],
        conf: Mapping[str, str] | None = None,
        stream_id: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self._driver = _SinkDriver(sink)
        launch = RegisterReceiver(stream_id, epoch=0, receiver_type=type(receiver).__name__, port=0)
        self._supervisor = ReceiverSupervisor(
            receiver, launch, Settings.parse(conf or {}), self._driver, self._driver, clock
        )

    def __enter__(self) -> Self:
        """Start the receiver."""
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop the receiver."""
        self.stop()

    def start(self) -> None:
        """Start the receiver; returns when its ``onStart`` has returned. An error of it is in ``errors``."""
        self._supervisor.start()

    def stop(self, message: str = "stopped by its host") -> None:
        """Stop the receiver, hand what is buffered to the sink and return then. Idempotent.

        Args:
            message: the reason, for logs and ``ends``.
        """
        self._supervisor.stop(message)

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until the receiver has ended, by ``stop`` or by itself; return whether it has.

        Raises:
            BaseException: the error that ended it.
        """
        return self._supervisor.await_termination(timeout_s)

    def update_rate(self, rate: float | None) -> None:
        """Set the rate limit, records/s; ``None`` leaves only ``spark.streaming.receiver.maxRate``."""
        self._supervisor.update(rate=rate)

    def pause(self) -> None:
        """Make every store of the receiver wait until ``resume``."""
        self._supervisor.update(paused=True)

    def resume(self) -> None:
        """End a pause."""
        self._supervisor.update(paused=False)

    @property
    def rate_limit(self) -> float | None:
        """Records/s in force, ``None`` for no limit."""
        return self._supervisor.rate_limit

    @property
    def is_terminated(self) -> bool:
        """Whether the receiver has ended and everything it stored is with the sink or lost."""
        return self._supervisor.is_terminated

    @property
    def stored_records(self) -> int:
        """The number of records that the sink has taken."""
        return self._supervisor.stored_records

    @property
    def errors(self) -> list[str]:
        """The last 1,000 errors that the receiver has reported or failed with, one of ``onStart`` included."""
        return [each.message for each in list(self._driver.errors)]

    @property
    def tracebacks(self) -> list[str]:
        """The traceback of each of these errors, empty for one without."""
        return [each.error for each in list(self._driver.errors)]

    @property
    def ends(self) -> list[str]:
        """Why the receiver has stopped, each time: the last 1,000 restarts, and its end."""
        return list(self._driver.ends)


class _SinkDriver:
    """Gives the receiver's blocks to the sink: driver and block handler in one."""

    def __init__(self, sink: Callable[[Block], object]) -> None:
        self._sink = sink
        # Guards the order in which the sink gets blocks.
        self._lock = threading.Lock()
        self._stored: dict[str, Block] = {}
        self.errors: deque[ReportError | DeregisterReceiver] = deque(maxlen=_LAST)
        self.ends: deque[str] = deque(maxlen=_LAST)
        self.starts = 0

    def store(self, block: Block) -> StoredBlock:
        self._stored[block.block_id] = block
        return block.stored("", block.table.nbytes)

    def delete(self, block_ids: Iterable[str]) -> None:
        for block_id in block_ids:
            self._stored.pop(block_id, None)

    def ask(self, message: object, reply_kind: type[R]) -> R:
        match message:
            case RegisterReceiver():
                self.starts += 1
            case AddBlocks():
                self._give(message.blocks)
            case ReportError():
                self.errors.append(message)
            case DeregisterReceiver():
                self.ends.append(message.message)
                # A restart has reported its error before.
                if message.error and message.ended:
                    self.errors.append(message)
        return reply_kind()

    def _give(self, blocks: list[StoredBlock]) -> None:
        with self._lock:
            for each in blocks:
                # A retry: the sink has taken the first blocks of the list.
                if each.block_id in self._stored:
                    self._sink(self._stored[each.block_id])
                    del self._stored[each.block_id]
