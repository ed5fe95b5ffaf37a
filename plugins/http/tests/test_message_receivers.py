"""The receivers ``websocket`` and ``sse`` with a server in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from plugins.brokers.tests.client_certificates import Certificates, tls_proxy

from penstock_brokers import Secret
from penstock_http import SseOptions, WebSocketOptions
from penstock_http.message_buffer import Message, MessageBuffer
from penstock_http.push_server import PushServer
from penstock_http.sse_receiver import SseReceiver
from penstock_http.websocket_receiver import WebSocketReceiver
from penstock_testing import ReceiverHarness

Launch = Callable[..., ReceiverHarness]


@pytest.fixture
def server() -> Iterator[PushServer]:
    server = PushServer()
    yield server
    server.close()


@pytest.fixture
def launch(server: PushServer, launch: Launch) -> Launch:
    """Run a receiver; it is stopped first, while the server is still there."""
    return launch


def events(server: PushServer, **options: Any) -> SseReceiver:
    values = {"url": f"http://127.0.0.1:{server.port}/events", "columns": ("value",), **options}
    return SseReceiver(SseOptions(**values))


def socket(server: PushServer, **options: Any) -> WebSocketReceiver:
    return WebSocketReceiver(WebSocketOptions(**{"url": f"ws://127.0.0.1:{server.port}/socket", **options}))


def test_messages_of_a_websocket(server: PushServer, launch: Launch) -> None:
    server.put(["a", b"b"])
    launched = launch(socket(server, subscribe="all"))
    launched.until_records(["a", "b"])
    launched.until(lambda: server.headers.get("subscribed") == "all")


def test_receiver_authenticates(server: PushServer, launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hush\n")
    token = Secret(f"file:{tmp_path / 'token'}")
    launch(socket(server, token=token))
    launched = launch(events(server, token=token, auth_header="X-Key"))
    launched.until(
        lambda: server.headers.get("Authorization") == "Bearer hush" or server.headers.get("X-Key") == "hush"
    )


@pytest.mark.parametrize(("make", "address"), [(events, "https://{}/events"), (socket, "wss://{}/socket")])
def test_both_sides_have_certificates_and_foreign_ones_are_refused(
    server: PushServer, launch: Launch, tmp_path: Path, make: Callable[..., Any], address: str
) -> None:
    own, other = Certificates(tmp_path / "own"), Certificates(tmp_path / "other")
    server.put(["a"])
    with tls_proxy(own.context(), server.port) as port:
        url = address.format(f"127.0.0.1:{port}")
        trusted = launch(make(server, url=url, tls_ca=own.authority, tls_certificate=own.client))
        trusted.until_records(["a"])
        foreign = launch(make(server, url=url, tls_ca=other.authority, tls_certificate=own.client))
        foreign.until_error("certificate verify failed")
        anonymous = launch(make(server, url=url, tls_ca=own.authority))
        anonymous.until(lambda: anonymous.errors)
        for each in (trusted, foreign, anonymous):
            each.stop()
        connections = psutil.Process().net_connections("tcp")
        assert not [each for each in connections if each.raddr and each.raddr.port == port]


@pytest.mark.parametrize("make", [events, socket])
def test_message_that_cannot_be_decoded_is_dropped_and_counted(
    server: PushServer, launch: Launch, make: Callable[..., Any]
) -> None:
    server.put(["1", "{", "3"])
    launched = launch(make(server, value_as="json"))
    launched.until_records(["1", "3"])
    launched.until_error("dropped messages that cannot be decoded (JSONDecodeError")


def test_event_above_the_limit_is_dropped(server: PushServer, launch: Launch) -> None:
    server.put(["a", "x" * 2000, "c"])
    launched = launch(events(server, max_message_bytes=1000))
    launched.until_records(["a", "c"])
    launched.until_error("dropped events longer than 1000 bytes (max_message_bytes): 1 (1 in total)")
    assert server.connections == 1


def test_message_above_the_limit_ends_the_connection(server: PushServer, launch: Launch) -> None:
    server.put(["a", "x" * 2000])
    launched = launch(socket(server, max_message_bytes=1000))
    launched.until_records(["a"])
    launched.until(lambda: launched.errors)
    server.put(["c"])
    launched.until_records(["a", "c"])


@pytest.mark.parametrize("make", [events, socket])
def test_server_that_is_silent_is_given_up(server: PushServer, launch: Launch, make: Callable[..., Any]) -> None:
    launched = launch(make(server, idle_timeout=0.2))
    if make is events:
        launched.until(lambda: server.connections >= 2)
    else:
        # It answers pings.
        server.put(["a"])
        launched.until_records(["a"])
        assert server.connections == 1


def test_columns_of_events(server: PushServer, launch: Launch) -> None:
    server.put(["a"])
    launched = launch(events(server, columns=("value", "event", "id")))
    launched.until_count(1)
    assert [tuple(row) for row in launched.records] == [("a", "message", "1")]


def test_events_resume_after_the_last_stored_one(server: PushServer, launch: Launch) -> None:
    server.put(["a", "b", "c"])
    launched = launch(events(server, last_event_id="1"))
    launched.until_records(["b", "c"])
    assert launched.position == {"last_event_id": "3"}
    launched.restart()
    launched.until(lambda: server.headers.get("Last-Event-ID") == "3")
    server.put(["d"])
    launched.until_records(["b", "c", "d"])


def test_events_that_could_not_be_stored_come_again(server: PushServer, launch: Launch) -> None:
    server.put(["a"])
    launched = launch(events(server), settings={"spark.penstock.receiver.storeRetries": "0"})
    launched.until_records(["a"])
    launched.refuse()
    server.put(["b", "c"])
    launched.until(lambda: launched.errors)
    launched.accept()
    launched.until_records(["a", "b", "c"])


def test_receiver_reconnects_when_the_server_ends_the_events(server: PushServer, launch: Launch) -> None:
    server.put(["a"])
    launched = launch(events(server))
    launched.until_records(["a"])
    server.end()
    # The next answer is 204: there are no more.
    launched.until(lambda: server.connections == 1 and server.num_refused == 1)
    assert launched.errors == []


@pytest.mark.parametrize("make", [events, socket])
def test_wrong_token_is_reported_without_it(
    server: PushServer, launch: Launch, tmp_path: Path, make: Callable[..., Any]
) -> None:
    server.token = "right"
    server.put(["a"])
    (tmp_path / "token").write_text("wrong-word")
    launched = launch(make(server, token=Secret(f"file:{tmp_path / 'token'}")))
    launched.until_error("check the option token")
    assert "wrong-word" not in str(launched.errors)
    # It is read again for each connection.
    (tmp_path / "token").write_text("right")
    launched.until_records(["a"])


def test_websocket_of_an_unknown_address_is_reported(server: PushServer, launch: Launch) -> None:
    launched = launch(socket(server, url=f"ws://127.0.0.1:{server.port}/other"))
    launched.until_error("answered 404")


def test_answer_that_is_no_stream_of_events_is_reported(server: PushServer, launch: Launch) -> None:
    launched = launch(events(server, url=f"http://127.0.0.1:{server.port}/other"))
    launched.until_error("answered 404 Not Found, text/plain, and not 200, text/event-stream")


def test_stop_stores_what_was_read(server: PushServer, launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    read, put = threading.Semaphore(0), MessageBuffer.put

    async def counted(buffer: MessageBuffer, message: Message) -> None:
        await put(buffer, message)
        read.release()

    monkeypatch.setattr(MessageBuffer, "put", counted)
    server.put(["a"])
    launched = launch(socket(server), settings={"spark.streaming.blockInterval": "1h"})
    launched.until_count(1)
    server.put(["b"])
    assert read.acquire(timeout=20)
    assert read.acquire(timeout=20)
    launched.stop()
    assert launched.records == ["a", "b"]
