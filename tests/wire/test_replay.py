"""What recorded connections are worth: they never show the token, and without TLS can be sent again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from tests.helpers import wait_for

from penstock.receive.messages import StopReceiver
from penstock.wire.client import Client
from penstock.wire.endpoint import Endpoint
from penstock.wire.json_codec import Reply
from penstock.wire.token import Tls, Token

STOP = StopReceiver("enough")


class Relay:
    """Stands between a client and an endpoint, and records what the client sends over one connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.recorded = bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            client, _address = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._port))
            self._sockets += [client, server]
            self._threads.append(threading.Thread(target=self._pass_on, args=(server, client, bytearray())))
            self._threads[-1].start()
            self._pass_on(client, server, self.recorded)

    def _pass_on(self, source: socket.socket, target: socket.socket, recorded: bytearray) -> None:
        with suppress(OSError):
            while sent := source.recv(65536):
                recorded += sent
                target.sendall(sent)

    def close(self) -> None:
        """Break the connection."""
        for sock in (self._listener, *self._sockets):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join(10)


class Recorded:
    """An endpoint, the messages that it handled, and one call that was recorded on its way there."""

    def __init__(self, token: Token) -> None:
        self.token = token
        self.handled = list[StopReceiver]()
        self.endpoint = Endpoint("127.0.0.1", token, {StopReceiver: self.handled.append})
        relay = Relay(self.endpoint.port)
        try:
            self.ask(relay.port)
        finally:
            relay.close()
        self.sent = bytes(relay.recorded)

    def ask(self, port: int) -> None:
        """Send a message as the application's processes do."""
        client = Client(self.token.location("127.0.0.1", port), self.token, 10_000)
        assert client.ask(STOP, Reply) == Reply()
        client.close()


@pytest.fixture
def record() -> Iterator[Callable[[Token], Recorded]]:
    """Makes endpoints to which one message was sent."""
    recordings: list[Recorded] = []

    def make(token: Token) -> Recorded:
        recordings.append(Recorded(token))
        return recordings[-1]

    yield make
    for recording in recordings:
        recording.endpoint.stop()


def test_recorded_connection_without_tls_shows_no_token_and_is_handled_again(
    record: Callable[[Token], Recorded],
) -> None:
    recorded = record(Token.generate())
    assert recorded.token.secret.encode() not in recorded.sent
    with socket.create_connection(("127.0.0.1", recorded.endpoint.port)) as again:
        again.sendall(recorded.sent)
        wait_for(lambda: len(recorded.handled) == 2, "the message is handled again")
    assert recorded.handled == [STOP, STOP]


def test_recorded_connection_is_refused_by_another_launch(record: Callable[[Token], Recorded]) -> None:
    application = Token.generate()
    recorded, other = record(application.derive("0/1")), record(application.derive("0/2"))
    with socket.create_connection(("127.0.0.1", other.endpoint.port), timeout=20) as again:
        again.sendall(recorded.sent)
        answer = b""
        while b"token only" not in answer:
            received = again.recv(65536)
            assert received, answer
            answer += received
    assert other.handled == [STOP]


def test_recorded_connection_with_tls_shows_nothing_and_is_dropped(
    record: Callable[[Token], Recorded], make_tls: Callable[[str], Tls]
) -> None:
    recorded = record(Token.generate(make_tls("ours")))
    assert recorded.token.secret.encode() not in recorded.sent
    with socket.create_connection(("127.0.0.1", recorded.endpoint.port), timeout=20) as again:
        again.sendall(recorded.sent)
        # It answers the greeting, and ends the connection at the first record that other keys have encrypted.
        with suppress(ConnectionError):
            while again.recv(65536):
                pass
    recorded.ask(recorded.endpoint.port)
    assert recorded.handled == [STOP, STOP]
