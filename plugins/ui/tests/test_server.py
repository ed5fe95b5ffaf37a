"""The server: routes, the token, ports, and clients that misbehave."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

import pytest
from plugins.ui.tests.conftest import FixedSource, T, batch_events, state_of
from plugins.ui.tests.exposition import parse
from plugins.ui.tests.web_client import address, connect, request

from penstock import ReceiverError, ReceiverInfo
from penstock_ui import rest as rest_module, web as web_module
from penstock_ui.own_events import ApplicationDescribed, StreamDescribed
from penstock_ui.server import UIServer
from penstock_ui.snapshot import Application

Serve = Callable[..., UIServer]
BASE = "/api/v1/applications/app-0/streaming"
STATISTICS = f"{BASE}/statistics"
TOKEN = "s3cret-ü"


def test_rest_and_metrics_are_served(serve: Serve) -> None:
    server = serve()
    response, body = request(server, STATISTICS)
    assert (response.status, response.getheader("Content-Type")) == (200, "application/json; charset=utf-8")
    assert json.loads(body)["numTotalCompletedBatches"] == 20
    response, body = request(server, "/metrics")
    assert response.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    assert parse(body.decode())["penstock_batches_completed_total", ()] == 20
    assert request(server, "/healthz")[0].status == 200
    assert request(server, STATISTICS, method="HEAD")[0].status in (200, 405)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/applications/app-0/streaming/batches/1", 404),
        ("/api/v1/applications/app-0/streaming/receivers/77", 404),
        ("/api/v1/applications/other/streaming/statistics", 404),
        ("/api/v2/", 404),
        ("/api/v1/applications/app-0/streaming/batches?status=%3Cscript%3E", 400),
        ("/api/v1/applications/app-0/streaming/batches?status=%ff%fe", 400),
        ("/api/v1/applications/%2e%2e/%2fetc/passwd", 404),
        (f"/api/v1/{'a/' * 2000}", 404),
    ],
    ids=range(8),
)
def test_unknown_and_invalid_requests_get_json(serve: Serve, path: str, status: int) -> None:
    response, body = request(serve(), path)
    assert response.status == status
    assert response.getheader("Content-Type") == "application/json; charset=utf-8"
    assert json.loads(body)["error"]
    assert b"<" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_server_changes_nothing(serve: Serve, method: str) -> None:
    assert request(serve(), STATISTICS, method=method)[0].status == 405


def test_names_and_errors_with_html_stay_text(serve: Serve, source: FixedSource) -> None:
    name = "<script>alert(1)</script>&"
    described = ApplicationDescribed(Application("app-0", name), (StreamDescribed(0, name, "R", True),))
    error = ReceiverError(ReceiverInfo(0, name, True, "h", "1", name, name, T))
    source.state = state_of([described, error, *batch_events(1, failure=name)])
    server = serve()
    for path in ("receivers", f"batches/{T + 1000}", f"batches/{T + 1000}/operations"):
        _, body = request(server, f"/api/v1/applications/app-0/streaming/{path}")
        assert b"<" not in body
        assert name in str(json.loads(body))


def test_url_names_the_bound_port_and_the_next_free_one_is_taken(serve: Serve) -> None:
    first = serve()
    port = address(first)[1]
    second = serve(port=port, retries=50)
    assert first.url == f"http://127.0.0.1:{port}"
    assert address(second)[1] > port
    assert request(first, "/healthz")[0].status == request(second, "/healthz")[0].status == 200
    with pytest.raises(OSError, match="in use"):
        serve(port=port, retries=0)


def test_stop_frees_the_port_and_ends_the_thread(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    server = serve()
    port = address(server)[1]
    open_connection = connect(server)
    open_connection.request("GET", "/healthz")
    open_connection.getresponse().read()
    server.stop()
    server.stop()
    open_connection.close()
    assert "penstock-ui" not in [thread.name for thread in threading.enumerate()]
    assert "dashboard ended" not in caplog.text
    socket.create_server(("127.0.0.1", port)).close()


def test_handlers_wait_until_somebody_connects(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, begin = threading.Event(), web_module.serve

    def noted(*arguments: Any) -> None:
        begun.set()
        begin(*arguments)

    monkeypatch.setattr(web_module, "serve", noted)
    unseen, server = serve(), serve()
    assert request(server, "/healthz")[0].status == 200
    assert begun.is_set()
    begun.clear()
    unseen.stop()
    assert not begun.is_set()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address(unseen))


def test_stop_before_the_start_is_harmless(source: FixedSource) -> None:
    UIServer(source).stop()


@pytest.mark.parametrize(
    "header", [f"Bearer {TOKEN}", f"bearer  {TOKEN}"], ids=["as documented", "scheme in lower case"]
)
def test_request_with_token_is_answered(serve: Serve, header: str) -> None:
    server, headers = serve(token=TOKEN), {"Authorization": header.encode().decode("latin-1")}
    assert request(server, STATISTICS, headers)[0].status == 200
    assert request(server, "/metrics", headers)[0].status == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("", {}),
        ("?token=", {}),
        ("?token=wrong", {}),
        ("?token=%ff%ff", {}),
        ("", {"Authorization": "Bearer wrong"}),
        ("", {"Authorization": "Basic wrong"}),
        ("", {"Authorization": "Bearer"}),
        ("", {"Cookie": "penstock-ui=wrong"}),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("page", ["/", "/metrics", STATISTICS, "/healthz", "/static/js/bokeh.js", "/ws"])
def test_request_without_the_token_is_refused(serve: Serve, page: str, path: str, headers: dict[str, str]) -> None:
    response, body = request(serve(token=TOKEN), page + path, headers)
    assert response.status == 401
    assert TOKEN not in body.decode()


@pytest.mark.parametrize(
    ("name", "status"),
    [("localhost:80", 200), ("127.0.0.1", 200), ("[::1]:4050", 200), ("10.0.0.7", 200), ("evil.example:4050", 403)],
)
def test_page_of_another_name_cannot_read_the_state_of_a_server_without_token(
    serve: Serve, name: str, status: int
) -> None:
    # A browser sends the name in its address bar, which may have been made to point here.
    assert request(serve(), STATISTICS, {"Host": name})[0].status == status


def test_server_with_token_is_reached_by_any_name(serve: Serve) -> None:
    headers = {"Host": "spark.example", "Authorization": "Bearer x"}
    assert request(serve(token="x"), STATISTICS, headers)[0].status == 200


def test_token_of_a_page_moves_into_a_cookie(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(token=TOKEN)
    response, _ = request(server, f"//evil.example/batch?id=5&token={quote(TOKEN)}&a=%26")
    assert response.status == 303
    assert response.getheader("Location") == "/evil.example/batch?id=5&a=%26"
    cookie = response.getheader("Set-Cookie", "")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert request(server, STATISTICS, {"Cookie": cookie.partition(";")[0]})[0].status == 200


def test_token_is_never_logged(serve: Serve, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="penstock")
    monkeypatch.setattr(web_module, "exposition", lambda _state: 1 / 0)
    server = serve(token="topsecret")
    bearer = {"Authorization": "Bearer topsecret"}
    assert request(server, "/metrics?token=topsecret")[0].status == 303
    assert request(server, "/metrics?token=wrong", bearer)[0].status == 500
    assert request(server, f"{STATISTICS}?token=topsecret", bearer, "POST")[0].status == 405
    assert request(server, STATISTICS, {"Authorization": "Bearer topsecre"})[0].status == 401
    assert request(server, "/nowhere?token=topsecret")[0].status == 303
    server.stop()
    assert "topsecret" not in caplog.text


def test_server_on_all_addresses_has_the_hosts_name_and_is_reached_by_it(serve: Serve) -> None:
    server = serve(host="0.0.0.0", name="driver.example", token="x")
    assert server.url.startswith("http://driver.example:")
    connection = HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=10)
    connection.request("GET", STATISTICS, headers={"Host": "driver.example", "Authorization": "Bearer x"})
    assert connection.getresponse().status == 200
    connection.close()


def test_client_that_stops_reading_is_disconnected_and_delays_nobody(
    serve: Serve, source: FixedSource, run: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_module, "_CLIENT_TIMEOUT_S", 0.2)
    source.state = state_of([run[0], *(event for n in range(1000) for event in batch_events(n, failure="x" * 9000))])
    server, disconnected = serve(), threading.Event()
    # The client reads nothing, so only the handler shows the disconnection.
    disconnect = web_module._Handler._disconnect

    def noted(handler: Any) -> None:
        disconnect(handler)
        disconnected.set()

    monkeypatch.setattr(web_module._Handler, "_disconnect", noted)  # the only place that shows it
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(address(server))
        stuck.sendall(f"GET {BASE}/batches HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert request(server, "/healthz")[0].status == 200
        assert disconnected.wait(10)
        # The rest of the 9 MB never comes.
        received = 0
        with suppress(ConnectionError):
            while part := stuck.recv(1 << 20):
                received += len(part)
        assert received < 8_000_000


def test_garbage_instead_of_http_leaves_the_server_running(serve: Serve) -> None:
    server = serve()
    for garbage in (b"\x16\x03\x01\x00\xff" * 100, b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"a" * 200_000 + b"\r\n\r\n"):
        with socket.create_connection(address(server), timeout=10) as client:
            client.sendall(garbage)
            # The server may have closed the connection already.
            with suppress(OSError):
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
    assert request(server, "/healthz")[0].status == 200


def test_source_that_raises_is_an_error_of_the_request_alone(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    real = rest_module.respond

    def fails(*_arguments: Any) -> Any:
        raise RuntimeError("broken <b>")

    monkeypatch.setattr(rest_module, "respond", fails)
    response, body = request(server, STATISTICS)
    assert response.status == 500
    assert b"broken" not in body
    monkeypatch.setattr(rest_module, "respond", real)
    assert request(server, STATISTICS)[0].status == 200
