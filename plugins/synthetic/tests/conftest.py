"""A receiver under a real supervisor, with a driver and a store that remember."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import pytest

from penstock import Block, Receiver, StoredBlock
from penstock.clock import Clock
from penstock.conf import Settings
from penstock.receive.supervisor import ReceiverSupervisor
from penstock.wire.messages import AddBlocks, Registered, RegisterReceiver, Reply, ReportError

R = TypeVar("R")

# No test waits that long unless it fails.
DEADLINE_S = 20.0
SETTINGS = {"spark.streaming.blockInterval": "20ms", "spark.streaming.receiverRestartDelay": "10ms"}


class Launched:
    """A receiver that runs, and all that it stored.

    Args:
        receiver: to run.
        clock: the machine's by default.
        settings: over ``SETTINGS``.
    """

    def __init__(self, receiver: Receiver[Any], clock: Clock | None, settings: Mapping[str, str]) -> None:
        self.receiver = receiver
        self._changed = threading.Condition()
        self._stored: dict[str, Block] = {}
        self.blocks: list[Block] = []
        self.messages: list[Any] = []
        self.supervisor = ReceiverSupervisor(
            receiver, 0, 0, Settings({**SETTINGS, **settings}), self, self.store, self.discard, clock=clock
        )

    def store(self, block: Block) -> StoredBlock:
        with self._changed:
            self._stored[block.block_id] = block
        return StoredBlock(block.block_id, block.stream_id, block.num_records, block.table.nbytes, "")

    def discard(self, block_ids: Iterable[str]) -> None:
        raise AssertionError(f"the driver accepts all, and yet {list(block_ids)} are discarded")

    def ask(self, message: object, reply_kind: type[R]) -> R:
        with self._changed:
            self.messages.append(message)
            if isinstance(message, AddBlocks):
                self.blocks += [self._stored.pop(block.block_id) for block in message.blocks]
            self._changed.notify_all()
        reply = Registered(True) if isinstance(message, RegisterReceiver) else Reply()
        assert isinstance(reply, reply_kind)
        return reply

    @property
    def count(self) -> int:
        return sum(block.num_records for block in list(self.blocks))

    @property
    def records(self) -> list[Any]:
        return [record for block in list(self.blocks) for record in block.records()]

    @property
    def errors(self) -> list[str]:
        return [message.message for message in list(self.messages) if isinstance(message, ReportError)]

    def until_count(self, count: int) -> None:
        """Wait until so many records were accepted."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, DEADLINE_S), f"{self.count}, {self.errors}"


@pytest.fixture
def launch() -> Iterator[Callable[..., Launched]]:
    """Run a receiver; it is stopped when the test is over, and must not leave a thread behind."""
    before = set(threading.enumerate())
    all_launched: list[Launched] = []

    def launch(
        receiver: Receiver[Any], clock: Clock | None = None, settings: Mapping[str, str] | None = None
    ) -> Launched:
        launched = Launched(receiver, clock, settings or {})
        all_launched.append(launched)
        launched.supervisor.start()
        return launched

    yield launch
    for launched in all_launched:
        launched.supervisor.stop("the test is over")
        assert launched.errors == []
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(DEADLINE_S)
    assert not [thread for thread in left if thread.is_alive()]
