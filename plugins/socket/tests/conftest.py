"""A receiver under a real supervisor, with a driver and a store that remember; and a server to receive from."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """A receiver that runs, and all that became of it.

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

    # -- what the supervisor needs --

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

    # -- what tests ask --

    @property
    def records(self) -> list[Any]:
        return [record for block in list(self.blocks) for record in block.records()]

    @property
    def errors(self) -> list[str]:
        return [message.message for message in list(self.messages) if isinstance(message, ReportError)]

    @property
    def ends(self) -> list[str]:
        return [message.message for message in list(self.messages) if isinstance(message, DeregisterReceiver)]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something became true that only a message to the driver can make true."""
        with self._changed:
            assert self._changed.wait_for(condition, DEADLINE_S), (
                f"{len(self.records)} records, {self.errors=}, {self.ends=}"
            )

    def until_records(self, expected: list[Any]) -> None:
        self.until(lambda: sum(block.num_records for block in self.blocks) >= len(expected))
        assert self.records == expected

    def stop(self) -> None:
        """Stop, promptly."""
        began_s = time.monotonic()
        self.supervisor.stop("the test is over")
        # A receiver that does not end is given 10 s, then left behind.
        assert time.monotonic() - began_s < 5


class Server:
    """A TCP server on a port of its own. Until ``listen`` it refuses."""

    def __init__(self) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(DEADLINE_S)
        self.port: int = self.socket.getsockname()[1]
        self._accepted: list[socket.socket] = []

    def listen(self, backlog: int = 8) -> Server:
        self.socket.listen(backlog)
        return self

    def accept(self) -> socket.socket:
        accepted, _ = self.socket.accept()
        accepted.settimeout(DEADLINE_S)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepted.append(accepted)
        return accepted

    def close(self) -> None:
        for each in (*self._accepted, self.socket):
            each.close()


@pytest.fixture
def refusing() -> Iterator[Server]:
    """A server that refuses until it is told to listen."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def launch(refusing: Server) -> Iterator[Callable[..., Launched]]:
    """Run a receiver; it is stopped when the test is over, and must not leave a thread behind.

    Args:
        refusing: for the order alone: the receiver is stopped first, while the server is still there.
    """
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
        launched.stop()
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(DEADLINE_S)
    assert not [thread for thread in left if thread.is_alive()]


@pytest.fixture
def server(refusing: Server) -> Server:
    """A server that listens."""
    return refusing.listen()


@pytest.fixture
def silent(server: Server) -> Iterator[Server]:
    """A server that answers no more: its queue of connections is full, and Linux drops what does not fit."""
    server.socket.listen(0)
    waiting = []
    for _ in range(16):
        filler = socket.socket()
        filler.settimeout(0.2)
        waiting.append(filler)
        try:
            filler.connect(("127.0.0.1", server.port))
        except TimeoutError:
            break
    else:
        pytest.skip("this system's queue of connections does not fill up")
    yield server
    for filler in waiting:
        filler.close()
