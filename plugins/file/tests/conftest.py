"""A receiver under a real supervisor, with a driver and a store that remember."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock import Block, Receiver, StoredBlock
from penstock.clock import Clock
from penstock.conf import Settings
from penstock.receive.supervisor import ReceiverSupervisor
from penstock.wire.messages import AddBlocks, DeregisterReceiver, Registered, RegisterReceiver, Reply, ReportError

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
    def records(self) -> list[Any]:
        return [record for block in list(self.blocks) for record in block.records()]

    @property
    def errors(self) -> list[str]:
        return [message.message for message in list(self.messages) if isinstance(message, ReportError)]

    @property
    def ends(self) -> list[str]:
        return [message.message for message in list(self.messages) if isinstance(message, DeregisterReceiver)]

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until something became true."""
        deadline_s = time.monotonic() + DEADLINE_S
        with self._changed:
            while not condition():
                self._changed.wait(0.01)  # not everything that may become true comes with a message to the driver
                assert time.monotonic() < deadline_s, (
                    f"{len(self.records)} records, {self.errors[-3:]=}, {self.ends[-3:]=}"
                )

    def until_records(self, expected: list[Any]) -> None:
        self.until(lambda: sum(block.num_records for block in self.blocks) >= len(expected))
        assert self.records == expected

    def until_error(self, words: str) -> None:
        self.until(lambda: any(words in error for error in self.errors))

    def stop(self) -> None:
        """Stop, promptly."""
        began_s = time.monotonic()
        self.supervisor.stop("the test is over")
        # A receiver that does not end is given 10 s, then left behind.
        assert time.monotonic() - began_s < 5


def _open_files() -> set[str]:
    """The regular files that this process has open."""
    names = (os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir())
    return {name for name in names if os.path.isfile(name)}  # noqa: PTH113  # of the one kind


@pytest.fixture
def launch() -> Iterator[Callable[..., Launched]]:
    """Run a receiver; it is stopped when the test is over, and must not leave a thread or an open file behind."""
    before, descriptors = set(threading.enumerate()), _open_files()
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
        launched.stop()
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(DEADLINE_S)
    assert not [thread for thread in left if thread.is_alive()]
    assert _open_files() <= descriptors
