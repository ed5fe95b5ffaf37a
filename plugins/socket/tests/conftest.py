"""A server to receive from."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from penstock_socket import tcp_receiver
from penstock_socket.connection import Interrupted
from penstock_testing import ReceiverHarness

# No test waits that long unless it fails.
DEADLINE_S = 20.0


def framed(*bodies: bytes) -> bytes:
    """Frames of these bodies."""
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The pieces of data that is cut at these places."""
    edges = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:stop] for start, stop in itertools.pairwise(edges)]


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
        for connection in (*self._accepted, self.socket):
            connection.close()


@pytest.fixture
def refusing() -> Iterator[Server]:
    """A server that refuses until it is told to listen."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def launch(refusing: Server, launch: Callable[..., ReceiverHarness]) -> Callable[..., ReceiverHarness]:
    """Run a receiver; it is stopped first, while the server is still there."""
    return launch


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


class Fountain:
    """In place of a connection: gives lines for ever, and counts the bytes that were received."""

    def __init__(self) -> None:
        # With the line ending.
        self.line_bytes = 100
        self.received_bytes = 0
        self._interrupted = threading.Event()

    def open(self) -> None:
        pass

    def receive_into(self, buffer: memoryview, timeout_s: float | None) -> int:
        if self._interrupted.is_set():
            raise Interrupted
        line = b"x" * (self.line_bytes - 1) + b"\n"
        begin = self.received_bytes % len(line)
        buffer[:] = (line * (len(buffer) // len(line) + 2))[begin : begin + len(buffer)]
        self.received_bytes += len(buffer)
        return len(buffer)

    def interrupt(self) -> None:
        self._interrupted.set()

    def close(self) -> None:
        pass


@pytest.fixture
def fountain(monkeypatch: pytest.MonkeyPatch) -> Fountain:
    """What receivers read from, in place of a connection."""
    fountain = Fountain()
    monkeypatch.setattr(tcp_receiver, "Connection", lambda *_: fountain)
    return fountain
