"""Surroundings of a receiver without Spark: a driver that records its messages, and a block store in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest
from tests.helpers import EventLog, advance_until, run_in_background

from penstock import Block, Receiver, StoredBlock
from penstock.conf import Settings
from penstock.errors import WireError
from penstock.receive.messages import AddBlocks, Registered, RegisterReceiver, UpdateRateLimit
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.runtime.clock import Clock
from penstock.wire.json_codec import Reply, from_json, to_json
from penstock_testing import ManualClock

M = TypeVar("M")
R = TypeVar("R")


@pytest.fixture
def background() -> Callable[[Callable[[], R]], Future[R]]:
    """Runs a call on a thread of its own, which may outlive the test."""
    return run_in_background


class FakeDriver:
    """Answers a receiver as its attributes say. The log has the messages that it got."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        #: The desired state given at registration; none is given unless one of these is set.
        self.rate: float | None = None
        self.paused = False
        #: Reasons; nothing is refused while they are empty.
        self.refuse_receiver = self.refuse_blocks = ""
        #: Message class → how many further messages of it fail, as without a connection.
        self.failures: dict[type, int] = {}
        self.on_message: Callable[[object], object] = lambda _message: None

    def ask(self, message: object, reply_kind: type[R]) -> R:
        message = from_json(type(message), to_json(message))
        self.on_message(message)
        if self.failures.get(type(message), 0) > 0:
            self.failures[type(message)] -= 1
            raise WireError(f"no answer to {type(message).__name__}")
        self.log.add(message)
        reply: Any = Reply()
        if isinstance(message, RegisterReceiver):
            gives_state = self.rate is not None or self.paused
            desired = UpdateRateLimit(self.rate, 0, self.paused) if gives_state else None
            reply = Registered(not self.refuse_receiver, self.refuse_receiver, desired)
        elif isinstance(message, AddBlocks):
            reply = Reply(not self.refuse_blocks, self.refuse_blocks)
        assert isinstance(reply, reply_kind)
        return reply

    @property
    def blocks(self) -> list[StoredBlock]:
        """The blocks reported to it, in order."""
        return [block for message in self.log.of(AddBlocks) for block in message.blocks]


class FakeStore:
    """Stores blocks in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Block] = {}
        self.discarded: list[str] = []
        self.tries = 0
        #: How many further blocks are not stored, and the error.
        self.failures = 0
        self.error = OSError(5, "Input/output error")
        #: What the store hook returns for a stored block.
        self.answer: Callable[[Block, StoredBlock], StoredBlock | None] = lambda _block, stored: stored
        self.on_store: Callable[[Block], object] = lambda _block: None

    def store(self, block: Block) -> StoredBlock | None:
        self.tries += 1
        self.on_store(block)
        if self.failures > 0:
            self.failures -= 1
            raise self.error
        self.kept[block.block_id] = block
        stored = StoredBlock(
            block.block_id, block.stream_id, block.num_records, block.table.nbytes, block.block_id, block.metadata
        )
        return self.answer(block, stored)

    def delete(self, block_ids: Iterable[str]) -> None:
        for block_id in block_ids:
            self.discarded.append(block_id)
            self.kept.pop(block_id, None)


@pytest.fixture
def log() -> EventLog:
    return EventLog()


@pytest.fixture
def driver(log: EventLog) -> FakeDriver:
    return FakeDriver(log)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def records(driver: FakeDriver, store: FakeStore) -> Callable[[], list[Any]]:
    """All records reported to the driver, in order."""
    return lambda: [record for block in driver.blocks for record in store.kept[block.block_id].records()]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Noting(Receiver[Any]):
    """Logs that it was started and stopped, and calls ``on_start`` and ``on_stop``."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.on_start: Callable[[], object] = lambda: None
        self.on_stop: Callable[[], object] = lambda: None

    def onStart(self) -> None:
        self._log.add("onStart")
        self.on_start()

    def onStop(self) -> None:
        self._log.add("onStop")
        self.on_stop()

    def on_rate_change(self, rate: float | None) -> None:
        self._log.add(f"rate {rate}")


@pytest.fixture
def receiver(log: EventLog) -> Noting:
    return Noting(log)


# Under the manual clock this timeout would be one more wait, and tests state how many waits they expect.
_NO_STOP_TIMEOUT = {"spark.penstock.receiver.stopTimeout": "0"}


@pytest.fixture
def supervise(driver: FakeDriver, store: FakeStore, clock: ManualClock) -> Iterator[Callable[..., ReceiverSupervisor]]:
    """Makes supervisors, under the manual clock unless another is given; stops them at the end."""
    supervisors: list[ReceiverSupervisor] = []

    def supervise(
        receiver: Receiver[Any], conf: Mapping[str, str] | None = None, other_clock: Clock | None = None
    ) -> ReceiverSupervisor:
        supervisors.append(
            ReceiverSupervisor(
                receiver,
                RegisterReceiver(3, 7, type(receiver).__name__, port=4711),
                settings=Settings.parse({**_NO_STOP_TIMEOUT, **(conf or {})}),
                driver=driver,
                blocks=store,
                clock=other_clock or clock,
            )
        )
        return supervisors[-1]

    yield supervise
    for supervisor in supervisors:
        supervisor.stop("the test is over")


@pytest.fixture
def drive(clock: ManualClock) -> Callable[[Future[R]], R]:
    """Advances the clock until a future is done; returns its result or raises its error."""

    def drive(future: Future[R]) -> R:
        advance_until(clock, future.done, "the call returns", 1000)
        return future.result(timeout=10)

    return drive
