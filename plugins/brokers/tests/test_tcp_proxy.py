"""``TcpProxy``: forwards, pauses, breaks and restores connections, and shows what passes."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.helpers import wait_for

from penstock_brokers import TcpProxy, Wiretap

LONG_S = 20.0


class Recorder(Wiretap):
    seen: list[tuple[str, bytes]]

    def from_client(self, data: bytes) -> None:
        self.seen.append(("client", data))

    def from_server(self, data: bytes) -> None:
        self.seen.append(("server", data))

    def closed(self) -> None:
        self.seen.append(("closed", b""))


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server that answers with the same bytes."""

    def serve(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1000):
                connection.sendall(data)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(LONG_S)


def ask(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return connection.recv(1000)


def connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), LONG_S)


def test_bytes_pass_and_are_shown(echo_port: int) -> None:
    Recorder.seen = []
    with TcpProxy("127.0.0.1", echo_port, Recorder) as proxy, connect(proxy) as connection:
        assert ask(connection, b"hello") == b"hello"
        assert proxy.accepted == 1
    assert Recorder.seen[:2] == [("client", b"hello"), ("server", b"hello")]
    assert set(Recorder.seen[2:]) == {("closed", b"")}


def test_a_pause_holds_what_is_sent_until_it_ends(echo_port: int) -> None:
    with TcpProxy("127.0.0.1", echo_port) as proxy, connect(proxy) as connection:
        assert ask(connection, b"first") == b"first"
        proxy.pause()
        connection.sendall(b"second")
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(1000)
        connection.settimeout(LONG_S)
        proxy.heal()
        assert connection.recv(1000) == b"second"


def test_a_cut_breaks_connections_and_refuses_new_ones_until_it_heals(echo_port: int) -> None:
    with TcpProxy("127.0.0.1", echo_port) as proxy:
        port = proxy.port
        with connect(proxy) as connection:
            assert ask(connection, b"first") == b"first"
            proxy.cut()
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1000) == b""
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        proxy.heal()
        with connect(proxy) as connection:
            assert (ask(connection, b"again"), proxy.port) == (b"again", port)


def test_a_server_reads_what_a_client_has_sent_before_it_was_killed() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        TcpProxy("127.0.0.1", listener.getsockname()[1]) as proxy,
    ):
        client = connect(proxy)
        server, _ = listener.accept()
        with server:
            # As many answers, which the client does not read, as find room on the way.
            server.setblocking(False)
            while select.select([], [server], [], 0.1)[1]:
                server.send(bytes(100_000))
            server.settimeout(LONG_S)
            client.sendall(b"last")
            client.close()
            received = b""
            while data := server.recv(1000):
                received += data
            assert received == b"last"


def test_a_server_that_is_away_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with TcpProxy("127.0.0.1", port) as proxy, connect(proxy) as connection:
        assert connection.recv(1000) == b""
        wait_for(lambda: proxy.accepted == 1, "the connection")
