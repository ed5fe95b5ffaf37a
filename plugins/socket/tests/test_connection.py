"""``Connection`` connects and receives, and another thread can interrupt every wait."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from penstock_socket.connection import Connection, Interrupted

if TYPE_CHECKING:
    from plugins.socket.tests.conftest import Server

# Longer than any test takes, so that only an interrupt can end a wait in time.
LONG_S = 600.0
Connect = Callable[..., Connection]


@pytest.fixture
def connect() -> Iterator[Connect]:
    connections: list[Connection] = []

    def connect(port: int, host: str = "127.0.0.1", timeout_s: float = LONG_S) -> Connection:
        connections.append(Connection(host, port, timeout_s))
        return connections[-1]

    yield connect
    for connection in connections:
        connection.close()


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a connection is about to wait in poll."""
    about_to = threading.Event()

    class Poll:
        def __init__(self) -> None:
            self._poll = poll()
            self.register = self._poll.register

        def poll(self, timeout_ms: float | None) -> list[tuple[int, int]]:
            about_to.set()
            return self._poll.poll(timeout_ms)

    poll = select.poll
    monkeypatch.setattr(select, "poll", Poll)
    return about_to


@pytest.fixture
def deaf_name_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Answers no question while the test runs; the event is set when there is one."""
    asked, over = threading.Event(), threading.Event()

    def getaddrinfo(*_: object, **__: object) -> None:
        asked.set()
        over.wait(60)
        raise OSError("the test is over")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield asked
    over.set()


def assert_interrupted(connection: Connection, wait: Callable[[], object], waiting: threading.Event) -> None:
    """Interrupt what waits on another thread."""
    interrupted = threading.Event()

    def run() -> None:
        try:
            wait()
        except Interrupted:
            interrupted.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert waiting.wait(120)
    connection.interrupt()
    thread.join(120)
    assert interrupted.is_set()


def test_receive_returns_bytes_until_the_end(server: Server, connect: Connect) -> None:
    connection = connect(server.port)
    connection.open()
    peer = server.accept()
    peer.sendall(b"hello")
    buffer = bytearray(10)
    received = 0
    while received < 5:
        received += connection.receive_into(memoryview(buffer)[received:], LONG_S) or 0
    assert buffer[:5] == b"hello"
    assert connection.receive_into(memoryview(buffer), 0.01) is None
    peer.close()
    assert connection.receive_into(memoryview(buffer), None) == 0


def test_reset_is_an_error(server: Server, connect: Connect) -> None:
    connection = connect(server.port)
    connection.open()
    peer = server.accept()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()
    with pytest.raises(ConnectionResetError):
        connection.receive_into(memoryview(bytearray(1)), LONG_S)


def test_refusal_is_an_error(refusing: Server, connect: Connect) -> None:
    with pytest.raises(ConnectionRefusedError):
        connect(refusing.port).open()


@pytest.mark.parametrize("host", ["no such host", "a" * 64 + ".example", "nul\0"])
def test_invalid_host_name_is_an_error(host: str, connect: Connect) -> None:
    with pytest.raises(OSError, match=r".+"):
        connect(1, host=host).open()


def test_name_is_resolved_and_its_addresses_are_tried_in_order(
    server: Server, refusing: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getaddrinfo(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        assert host == "two.example"
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", unserved.getsockname()[1])),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with socket.socket() as unserved:
        unserved.bind(("127.0.0.1", 0))
        connect(server.port, host="two.example").open()
    server.accept()


def test_connecting_times_out(silent: Server, connect: Connect) -> None:
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        connect(silent.port, timeout_s=0.05).open()


def test_resolving_times_out(connect: Connect, deaf_name_service: threading.Event) -> None:
    with pytest.raises(TimeoutError, match=r"'name.example' was not resolved within 0\.05 s"):
        connect(1, host="name.example", timeout_s=0.05).open()


def test_interrupt_ends_resolving(connect: Connect, deaf_name_service: threading.Event) -> None:
    connection = connect(1, host="name.example")
    assert_interrupted(connection, connection.open, deaf_name_service)


def test_interrupt_ends_connecting(silent: Server, connect: Connect, waiting: threading.Event) -> None:
    connection = connect(silent.port)
    assert_interrupted(connection, connection.open, waiting)


def test_interrupt_ends_receiving(server: Server, connect: Connect, waiting: threading.Event) -> None:
    connection = connect(server.port)
    connection.open()
    waiting.clear()
    assert_interrupted(connection, lambda: connection.receive_into(memoryview(bytearray(1)), None), waiting)


def test_interrupt_takes_precedence_over_received_bytes(server: Server, connect: Connect) -> None:
    connection = connect(server.port)
    connection.open()
    server.accept().sendall(b"x")
    connection.interrupt()
    with pytest.raises(Interrupted):
        connection.receive_into(memoryview(bytearray(1)), None)


def test_interrupt_before_open_ends_open(server: Server, connect: Connect) -> None:
    connection = connect(server.port)
    connection.interrupt()
    with pytest.raises(Interrupted):
        connection.open()


def test_close_and_interrupt_are_idempotent(server: Server, connect: Connect) -> None:
    connection = connect(server.port)
    connection.open()
    for _ in range(3):
        connection.interrupt()
        connection.close()
    connection.interrupt()


def test_socket_connected_to_itself_is_a_refusal(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "getpeername", socket.socket.getsockname)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        with pytest.raises(ConnectionRefusedError):
            connect(listening.getsockname()[1]).open()


def test_receive_returns_after_its_timeout(server: Server, connect: Connect) -> None:
    connection = connect(server.port)
    connection.open()
    began_s = time.monotonic()
    assert connection.receive_into(memoryview(bytearray(1)), 0.02) is None
    assert time.monotonic() - began_s >= 0.02
