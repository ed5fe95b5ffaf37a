"""``ReceiverHarness``: a receiver that runs as on an executor, without Spark.

Owns the blocks that the receiver stored, in memory, and what it told the driver, which here accepts all. Starts no
thread: there are the receiver's own and its supervisor's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.blocks.block import Block, StoredBlock
from penstock.conf import Settings
from penstock.receive.messages import AddBlocks, DeregisterReceiver, Registered, RegisterReceiver, ReportError
from penstock.receive.receiver import Receiver
from penstock.receive.supervisor import ReceiverSupervisor
from penstock.runtime.clock import Clock
from penstock.wire.messages import Reply

R = TypeVar("R")

# Nobody waits that long unless something fails.
_DEADLINE_S = 20.0
_STOP_S = 5.0
# What is stored record by record is soon in a block, and a receiver that failed soon tries again.
_CONF = {"spark.streaming.blockInterval": "20ms", "spark.streaming.receiverRestartDelay": "10ms"}


class ReceiverHarness:
    """Run a receiver and look at what comes of it.

    As a context manager it starts the receiver and stops it in the end.

    Args:
        receiver: to run.
        conf: over the harness's own, which are a block interval of 20 ms and a restart delay of 10 ms.
        clock: the machine's by default; a ``ManualClock`` for what depends on time.

    Raises:
        ConfigurationError: a value of ``conf`` cannot be read.
    """

    def __init__(
        self, receiver: Receiver[Any], conf: Mapping[str, str] | None = None, clock: Clock | None = None
    ) -> None:
        self.receiver = receiver
        self._changed = threading.Condition()
        self._unaccepted: dict[str, Block] = {}
        self._blocks: list[Block] = []
        self._messages: list[Any] = []
        self._supervisor = ReceiverSupervisor(
            receiver, 0, 0, Settings.parse({**_CONF, **(conf or {})}), self, self._store, self._discard, clock=clock
        )

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Start the receiver; returns when its ``onStart`` has."""
        self._supervisor.start()

    def stop(self) -> None:
        """Stop the receiver and wait for its end; what it has buffered is stored first. Harmless when repeated.

        Raises:
            TimeoutError: it did not end within 5 s; an executor leaves it behind then, with what it holds.
        """
        began = time.monotonic()
        self._supervisor.stop("the test is over")
        if time.monotonic() - began > _STOP_S:
            raise TimeoutError(
                f"{type(self.receiver).__name__} did not end within {_STOP_S:g} s of its stop: onStop is to wake "
                "whatever the receiver waits in"
            )

    def update_rate(self, rate: float) -> None:
        """Limit the receiver to so many records a second, as a rate estimator does; 0 or less for no limit."""
        self._supervisor.update_rate(rate, 1)

    @property
    def blocks(self) -> list[Block]:
        """What was stored and accepted so far, in order."""
        with self._changed:
            return list(self._blocks)

    @property
    def records(self) -> list[Any]:
        """The records of these blocks, as a batch would have them."""
        return [record for block in self.blocks for record in block.records()]

    @property
    def count(self) -> int:
        """How many records these are."""
        return sum(block.num_records for block in self.blocks)

    @property
    def errors(self) -> list[str]:
        """What the receiver has reported, or failed with, so far."""
        return [message.message for message in self.messages if isinstance(message, ReportError)]

    @property
    def ends(self) -> list[str]:
        """Why it has ended; each time."""
        return [message.message for message in self.messages if isinstance(message, DeregisterReceiver)]

    @property
    def messages(self) -> list[Any]:
        """Every message to the driver so far."""
        with self._changed:
            return list(self._messages)

    def until(self, condition: Callable[[], object], timeout_s: float = _DEADLINE_S) -> None:
        """Wait until a condition is true: looked at whenever the driver is told something, and every 10 ms.

        Raises:
            TimeoutError: it is not; says what there is.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"not within {timeout_s:g} s: {self.count} records, errors {self.errors[-3:]}, "
                    f"ends {self.ends[-3:]}"
                )
            with self._changed:
                self._changed.wait(0.01)

    def until_count(self, count: int) -> None:
        """Wait until there are at least so many records.

        Raises:
            TimeoutError: they do not come.
        """
        self.until(lambda: self.count >= count)

    def until_records(self, expected: list[Any]) -> None:
        """Wait until there are as many records as are expected, and hold them against these.

        Raises:
            TimeoutError: they do not come.
            AssertionError: there are others.
        """
        self.until_count(len(expected))
        records = self.records
        if records != expected:
            raise AssertionError(f"expected {expected!r}, and there are {records!r}")

    def until_error(self, words: str) -> None:
        """Wait until an error that contains these words is reported.

        Raises:
            TimeoutError: none is.
        """
        self.until(lambda: any(words in error for error in self.errors))

    # -- the driver and the store, for the supervisor --

    def ask(self, message: object, reply_kind: type[R]) -> R:
        """Answer as the driver does that accepts all."""
        with self._changed:
            self._messages.append(message)
            if isinstance(message, AddBlocks):
                self._blocks += [self._unaccepted.pop(block.block_id) for block in message.blocks]
            self._changed.notify_all()
        reply = Registered(True) if isinstance(message, RegisterReceiver) else Reply()
        if not isinstance(reply, reply_kind):
            raise TypeError(f"{type(message).__name__} is not answered with {reply_kind.__name__}")
        return reply

    def _store(self, block: Block) -> StoredBlock:
        with self._changed:
            self._unaccepted[block.block_id] = block
        return StoredBlock(block.block_id, block.stream_id, block.num_records, block.table.nbytes, "")

    def _discard(self, block_ids: Iterable[str]) -> None:
        raise AssertionError(f"all is accepted, and yet {list(block_ids)} are discarded")
