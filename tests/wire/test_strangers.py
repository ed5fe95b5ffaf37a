"""Peers without the token: they delay no stop, and hold a limited number of connections for a limited time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from tests.helpers import wait_for
from tests.wire.half_open import Stranger

from penstock.errors import WireError
from penstock.receive.messages import UpdateRateLimit
from penstock.wire import connection_guard
from penstock.wire.client import Client
from penstock.wire.endpoint import Endpoint
from penstock.wire.json_codec import Reply
from penstock.wire.token import Token

UPDATE = UpdateRateLimit(5.0, 1)


@pytest.fixture
def strangers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def stop_took_s(endpoint: Endpoint, timeout_s: float = 5.0) -> float:
    began = time.monotonic()
    stopping = threading.Thread(target=endpoint.stop, args=[timeout_s], daemon=True)
    stopping.start()
    stopping.join(20)
    assert not stopping.is_alive(), "the stop hangs"
    return time.monotonic() - began


def is_refused(port: int) -> bool:
    """Whether nobody listens at a port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        # The listener was closed before it accepted this connection.
        return False
    return False


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("calls", [False, True], ids=["silent", "unfinished call"])
@pytest.mark.parametrize("number", [1, 200])
def test_strangers_delay_no_stop(strangers: ExitStack, host: str, calls: bool, number: int) -> None:
    endpoint = Endpoint(host, Token.generate(), {})
    held = [strangers.enter_context(Stranger(endpoint.port, calls=calls, address=host)) for _ in range(number)]
    # No public name lists connections.
    wait_for(lambda: len(endpoint._guard.connections()) == number, "gRPC has accepted them")
    assert stop_took_s(endpoint) < 2
    assert all(stranger.closed.wait(10) for stranger in held)


def test_call_in_progress_is_answered_although_a_stranger_holds_a_connection(strangers: ExitStack) -> None:
    token, entered = Token.generate(), threading.Event()

    def answer(_message: object) -> Reply:
        entered.set()
        if stopping.is_set():
            wait_for(lambda: is_refused(endpoint.port), "the stop has begun")
        return Reply(reason="in time")

    stopping = threading.Event()
    endpoint = Endpoint("127.0.0.1", token, {UpdateRateLimit: answer})
    client = Client(token.location("127.0.0.1", endpoint.port), token, 10_000)
    assert client.ask(UPDATE, Reply) == Reply(reason="in time")
    entered.clear()
    stopping.set()
    strangers.enter_context(Stranger(endpoint.port, calls=True))
    replies: list[Reply] = []
    asking = threading.Thread(target=lambda: replies.append(client.ask(UPDATE, Reply)))
    asking.start()
    assert entered.wait(10)
    assert stop_took_s(endpoint) < 3
    asking.join(10)
    assert replies == [Reply(reason="in time")]
    client.close()


def test_handler_that_hangs_ends_no_stop_late() -> None:
    token, entered, gate = Token.generate(), threading.Event(), threading.Event()

    def hang(_message: object) -> None:
        entered.set()
        gate.wait(60)

    endpoint = Endpoint("127.0.0.1", token, {UpdateRateLimit: hang})
    client = Client(token.location("127.0.0.1", endpoint.port), token, 60_000, retry=False)

    def ask() -> None:
        with suppress(WireError):
            client.ask(UPDATE, Reply)

    asking = threading.Thread(target=ask)
    asking.start()
    assert entered.wait(10)
    assert 0.5 <= stop_took_s(endpoint, 0.5) < 5
    gate.set()
    asking.join(10)


def test_strangers_are_disconnected_after_their_time_and_callers_stay(
    strangers: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_guard, "_CHECK_S", 0.1)
    monkeypatch.setattr(connection_guard, "_STRANGER_S", 1.0)
    token = Token.generate()
    endpoint = Endpoint("127.0.0.1", token, {UpdateRateLimit: lambda _message: Reply()})
    client = Client(token.location("127.0.0.1", endpoint.port), token, 10_000, retry=False)
    assert client.ask(UPDATE, Reply) == Reply()
    began = time.monotonic()
    held = [strangers.enter_context(Stranger(endpoint.port, calls=calls)) for calls in (True, False)]
    assert all(stranger.closed.wait(10) for stranger in held)
    assert time.monotonic() - began > 0.8
    # The connection of the caller is the one that it had; no public name lists connections.
    wait_for(lambda: len(endpoint._guard.connections()) == 1, "gRPC has closed the others")
    assert client.ask(UPDATE, Reply) == Reply()
    client.close()
    endpoint.stop()


def test_the_oldest_of_many_strangers_are_disconnected_early(
    strangers: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_guard, "_CHECK_S", 0.1)
    monkeypatch.setattr(connection_guard, "_MAX_STRANGERS", 3)
    listings, connections = [set[connection_guard.Peer]()], connection_guard.ConnectionGuard.connections

    def noted(guard: connection_guard.ConnectionGuard) -> dict[int, connection_guard.Peer]:
        listed = connections(guard)
        listings.append(set(listed.values()))
        return listed

    monkeypatch.setattr(connection_guard.ConnectionGuard, "connections", noted)
    endpoint = Endpoint("127.0.0.1", Token.generate(), {})
    held = list[Stranger]()
    for _ in range(5):
        held.append(strangers.enter_context(Stranger(endpoint.port)))
        # One of any two listings is made to learn ages, the other to disconnect.
        wait_for(lambda: all(held[-1].peer in listed for listed in listings[-2:]), "it is known")
    wait_for(lambda: held[0].closed.is_set() and held[1].closed.is_set(), "the oldest are disconnected")
    assert not any(stranger.closed.is_set() for stranger in held[2:])
    endpoint.stop()


def test_callers_stay_known_when_connections_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_guard, "_CHECK_S", 0.001)
    monkeypatch.setattr(connection_guard, "_STRANGER_S", 0.0)
    listed: dict[int, connection_guard.Peer] = {}
    listings: list[int] = []
    disconnected: list[set[connection_guard.Peer]] = []

    class Guard(connection_guard.ConnectionGuard):
        def connections(self) -> dict[int, connection_guard.Peer]:
            listings.append(len(listed))
            return dict(listed)

        def _disconnect(self, peers: set[connection_guard.Peer]) -> None:
            disconnected.append(peers)

    guard = Guard(1)
    guard.note_caller("ipv4:127.0.0.1:4711")
    seen = len(listings)
    wait_for(lambda: len(listings) >= seen + 3, "two listings fail")
    listed[7] = ("127.0.0.1", 4711)
    seen = len(disconnected)
    wait_for(lambda: len(disconnected) >= seen + 3, "the connections are checked")
    guard.stop()
    assert not any(disconnected)
