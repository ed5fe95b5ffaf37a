"""Bounds: connections without a request, open pages, frames and text that are not valid."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psutil
import pytest
from attrs import evolve
from plugins.ui.tests.conftest import FixedSource, T, batch_events, state_of
from plugins.ui.tests.snapshots import snapshot
from plugins.ui.tests.web_client import address, request
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from penstock import DStreamInfo, ReceiverError, ReceiverInfo
from penstock_ui import web as web_module
from penstock_ui.dashboard import page_server
from penstock_ui.own_events import ApplicationDescribed, StreamDescribed
from penstock_ui.server import UIServer
from penstock_ui.snapshot import Application, Snapshot

Serve = Callable[..., UIServer]
PATHS = ("/", "/streams", "/stream?id=0", "/batches", f"/batch?id={T + 1000}", "/rate", "/graph", "/metrics")


@contextmanager
def connections(server: UIServer, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    opened = []
    try:
        for _ in range(count):
            opened.append(socket.create_connection(address(server), timeout=10))
            if sent:
                opened[-1].sendall(sent)
        yield opened
    finally:
        for connection in opened:
            connection.close()


def accepted(server: UIServer) -> int:
    """Open connections of this process at the server's port."""
    port = address(server)[1]
    own = psutil.Process(os.getpid()).net_connections("tcp")
    return sum(each.laddr.port == port and each.status == "ESTABLISHED" for each in own)


def test_hundreds_of_silent_connections_stop_neither_pages_nor_the_end(serve: Serve) -> None:
    server = serve()
    # The first page imports Bokeh, which takes seconds on a busy machine.
    assert request(server, "/")[0].status == 200
    with (
        connections(server, 300),
        connections(server, 200, b"GET / HTTP/1.1\r\nHost: local"),
    ):
        begun = time.monotonic()
        assert request(server, "/")[0].status == 200
        assert request(server, "/metrics")[0].status == 200
        assert time.monotonic() - begun < 5
        # The server has closed the oldest.
        assert accepted(server) <= web_module.MOST_CONNECTIONS + 2
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 3
    assert "penstock-ui" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: local"], ids=["idle", "half a request"])
def test_connection_without_a_request_is_closed(serve: Serve, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(web_module, "_REQUEST_TIMEOUT_S", 0.3)
    with connections(serve(), 1, sent) as (silent,):
        assert silent.recv(100) == b""


def test_connection_with_a_valid_request_outlives_later_silent_ones(serve: Serve) -> None:
    server = serve(token="x")
    with connections(server, web_module.MOST_CONNECTIONS - 1) as silent:
        from http.client import HTTPConnection

        kept = HTTPConnection(*address(server), timeout=10)
        kept.request("GET", "/healthz", headers={"Authorization": "Bearer x"})
        kept.getresponse().read()
        with connections(server, 100):
            kept.request("GET", "/healthz", headers={"Authorization": "Bearer x"})
            assert kept.getresponse().status == 200
        silent[0].settimeout(10)
        with suppress(ConnectionError):
            assert silent[0].recv(1) == b""
        kept.close()


@pytest.mark.parametrize(
    "head",
    [
        b"POST /api/v1/applications HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000,
    ],
    ids=["body", "header"],
)
def test_long_request_is_cut_off(serve: Serve, head: bytes) -> None:
    with connections(serve(), 1, head) as (client,), suppress(ConnectionError):
        while part := client.recv(65536):
            assert b"200 OK" not in part


def test_open_pages_are_limited_and_the_refusal_says_so(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    monkeypatch.setattr(page_server, "MOST_PAGES", 3)
    assert [request(server, "/")[0].status for _ in range(5)] == [200, 200, 200, 503, 503]
    response, body = request(server, "/streams")
    assert response.status == 503
    assert response.getheader("Retry-After") is not None
    assert "3 pages" in json.loads(body)["error"]
    assert request(server, "/metrics")[0].status == 200


def bokeh_token(page: bytes) -> str:
    """The token of a page's session."""
    text = page.decode().partition('"token":')[2]
    return text.split('"')[1]


def socket_request(server: UIServer) -> HTTPRequest:
    host, port = address(server)
    return HTTPRequest(f"ws://{host}:{port}/ws", headers={"Origin": f"http://{host}:{port}"})


async def opened(server: UIServer, token: str) -> Any:
    return await websocket_connect(socket_request(server), subprotocols=["bokeh", token])


async def closed(connection: Any) -> None:
    connection.close()
    while await asyncio.wait_for(connection.read_message(), 10) is not None:
        pass


def test_web_socket_needs_the_token_of_a_page(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    server = serve()
    own = bokeh_token(request(server, "/")[1])
    forged = "eyJzZXNzaW9uX2lkIjoiYSIsInNlc3Npb25fZXhwaXJ5Ijo5OTk5OTk5OTk5fQ"

    async def scenario() -> None:
        connection = await opened(server, own)
        assert b"ACK" in (await connection.read_message()).encode()
        await closed(connection)
        for token in (forged, "x", "é", own[:-3] + "abc", own + "x", f"{forged}.x"):
            with pytest.raises(HTTPClientError, match="403"):
                await opened(server, token)
        with pytest.raises(HTTPClientError, match="403"):
            await websocket_connect(socket_request(server))

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
        # The thread of the server answers when it has handled the ends of the connections.
        assert request(server, "/healthz")[0].status == 200
    assert "Traceback" not in caplog.text


def test_web_sockets_of_one_page_are_limited(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    sockets: list[Any] = []
    own = bokeh_token(request(server, "/")[1])
    monkeypatch.setattr(page_server, "MOST_PAGES", 3)

    async def scenario() -> None:
        for _ in range(3):
            sockets.append(await opened(server, own))
            await sockets[-1].read_message()
        with pytest.raises(HTTPClientError, match="503"):
            await opened(server, own)
        for connection in sockets:
            await closed(connection)

    asyncio.run(scenario())


def answers(server: UIServer, source: FixedSource, head: bytes, count: int) -> Counter[bytes]:
    """The statuses of requests that are all there when the server looks for the next one."""
    reading, resume = threading.Event(), threading.Event()
    state = source.state

    def hold() -> Snapshot:
        reading.set()
        assert resume.wait(30)
        return state

    with pytest.MonkeyPatch.context() as patch, ExitStack() as opened_here:
        patch.setattr(source, "snapshot", hold)
        opened_here.enter_context(connections(server, 1, head_of(server, "/metrics")))
        assert reading.wait(30)
        clients = opened_here.enter_context(connections(server, count, head))
        patch.undo()
        resume.set()
        return Counter(client.makefile("rb").readline()[9:12] for client in clients)


def head_of(server: UIServer, path: str, further: str = "") -> bytes:
    """A request as bytes."""
    host, port = address(server)
    return f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{further}\r\n".encode()


def test_pages_requested_at_once_are_limited(
    serve: Serve, source: FixedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "MOST_PAGES", 3)
    server = serve()
    request(server, "/")
    assert answers(server, source, head_of(server, "/"), 100) == {b"200": 2, b"503": 98}
    assert answers(server, source, head_of(server, "/"), 100) == {b"503": 100}


def test_web_sockets_opened_at_once_are_limited(
    serve: Serve, source: FixedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "MOST_PAGES", 3)
    server = serve()
    upgrade = (
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"Sec-WebSocket-Protocol: bokeh, {bokeh_token(request(server, '/')[1])}\r\n"
    )
    admitted = answers(server, source, head_of(server, "/ws", upgrade), 100)
    assert admitted == {b"101": 3, b"503": 97}


def test_web_socket_that_is_no_upgrade_takes_no_place(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    own = bokeh_token(request(server, "/")[1])
    monkeypatch.setattr(page_server, "MOST_PAGES", 2)
    with connections(server, 2, head_of(server, "/ws", f"Sec-WebSocket-Protocol: bokeh, {own}\r\n")) as clients:
        assert [client.makefile("rb").readline()[9:12] for client in clients] == [b"400"] * 2
        assert request(server, "/")[0].status == 200


@pytest.mark.parametrize(
    "frame",
    [
        "nonsense",
        b"\xff\x00",
        "{}",
        "[1,2]",
        '{"msgid": "1", "msgtype": "PATCH-DOC"}',
        "é" * 100_000,
    ],
    ids=range(6),
)
def test_malformed_frame_is_refused_in_one_line(
    serve: Serve, caplog: pytest.LogCaptureFixture, frame: str | bytes
) -> None:
    server = serve()

    async def scenario() -> None:
        connection = await opened(server, bokeh_token(request(server, "/")[1]))
        await connection.read_message()
        for _ in range(3):
            with suppress(Exception):
                await connection.write_message(frame, binary=isinstance(frame, bytes))
        await closed(connection)

    with caplog.at_level(logging.DEBUG):
        asyncio.run(scenario())
        assert request(server, "/healthz")[0].status == 200
    assert "Traceback" not in caplog.text
    assert not any(record.exc_info for record in caplog.records)
    visible = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(visible) <= 1


def test_bytes_that_are_no_web_socket_frame_end_the_connection_quietly(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve()
    host, port = address(server)
    token = bokeh_token(request(server, "/")[1])
    for garbage in (b"\xff" * 200, b"\x81\x85\0\0\0\0\xff\xfe\xfd\xfc\xfb", b"\x88\x81\0\0\0\0a"):
        head = (
            f"GET /ws HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"Sec-WebSocket-Protocol: bokeh, {token}\r\n\r\n"
        )
        with connections(server, 1, head.encode()) as (client,):
            assert b"101" in client.recv(100)
            client.sendall(garbage)
            client.settimeout(5)
            with suppress(OSError):
                while client.recv(65536):
                    pass
    assert request(server, "/healthz")[0].status == 200
    assert "Traceback" not in caplog.text


LONE = "orders-\udce9\ud800"
SEEN = "orders-\ufffd\ufffd"


@pytest.mark.parametrize("path", PATHS)
def test_lone_surrogates_reach_every_page_and_metric_as_one_replacement(
    serve: Serve, source: FixedSource, path: str
) -> None:
    graph = (DStreamInfo(0, "SocketReceiver", LONE, LONE, (), 0, "input"),)
    described = ApplicationDescribed(Application("app-0", LONE), (StreamDescribed(0, LONE, "R", True),), graph)
    error = ReceiverError(ReceiverInfo(0, LONE, True, "h", "1", LONE, LONE, T))
    state = state_of([described, error, *batch_events(1, failure=f"ValueError: {LONE}")])
    source.state = state
    response, body = request(serve(), path)
    assert response.status == 200
    text = body.decode()
    assert SEEN in text or path.startswith("/batch")


def test_lone_surrogates_in_rest_are_valid_json(serve: Serve, source: FixedSource) -> None:
    described = ApplicationDescribed(Application("app-0", LONE), (StreamDescribed(0, LONE, "R", True),))
    error = ReceiverError(ReceiverInfo(0, LONE, True, "h", "1", LONE, LONE, T))
    source.state = state_of([described, error, *batch_events(1, failure=f"ValueError: {LONE}")])
    server = serve()
    for path in ("", "/app-0/streaming/receivers", "/app-0/streaming/batches", "/app-0/streaming/monitoring"):
        _, body = request(server, f"/api/v1/applications{path}")
        assert "\\ud" not in body.decode().lower()
        json.loads(body)
    assert SEEN in json.loads(request(server, "/api/v1/applications")[1])[0]["name"]


def test_page_that_is_open_shows_lone_surrogates_that_arrive_later(serve: Serve) -> None:
    from penstock_ui.dashboard.pages import PAGES, render_parts
    from penstock_ui.dashboard.query import Query

    state = snapshot(1, 5)
    named = evolve(state, streams=(evolve(state.streams[0], name=LONE),))
    parts = render_parts(PAGES[0], named, Query(), state.time_ms)
    assert SEEN in "".join(parts.values())
    "".join(parts.values()).encode()
