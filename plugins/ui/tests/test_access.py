"""Who may read the dashboard: the generated token, Host and Origin, cookies, and the headers of every answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

import pytest
from plugins.ui.tests.web_client import address, request

from penstock import ConfigurationError
from penstock_testing import FakeListenerContext
from penstock_ui.server import UIServer
from penstock_ui.start import monitors

Serve = Callable[..., UIServer]
APPLICATIONS = "/api/v1/applications"
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.fixture
def started() -> Iterator[Callable[..., FakeListenerContext]]:
    """Start the monitor of an application with a configuration."""
    running = []

    def start(**options: str) -> FakeListenerContext:
        conf = {"port": "0", **options}
        context = FakeListenerContext(
            configuration={f"spark.penstock.ui.{name}": value for name, value in conf.items()}
        )
        running.extend(monitors(context))
        return context

    yield start
    for monitor in running:
        monitor.close()


def status(url: str, headers: dict[str, str] | None = None) -> int:
    """The status of an answer, redirects not followed."""
    parts = urlsplit(url)
    from http.client import HTTPConnection

    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=10)
    try:
        connection.request("GET", f"{parts.path or '/'}?{parts.query}", headers=headers or {})
        return connection.getresponse().status
    finally:
        connection.close()


def test_dashboard_has_a_token_by_default_which_its_address_contains(
    started: Callable[..., FakeListenerContext],
) -> None:
    context = started()
    parts = urlsplit(context.ui_url)
    (token,) = parse_qs(parts.query)["token"]
    base = f"http://{parts.netloc}"
    assert len(token) >= 32
    for path in ("/", APPLICATIONS, "/metrics", "/healthz"):
        assert status(base + path) == 401
        assert status(base + path, {"Authorization": f"Bearer {token}"}) == 200
    # The page of a batch is in the descriptions of Spark's jobs, which other users may read.
    assert token not in context.batch_page
    assert started().ui_url.partition("token=")[2] != token


def test_token_is_switched_off_on_loopback_only(started: Callable[..., FakeListenerContext]) -> None:
    assert status(started(token="none").ui_url + APPLICATIONS) == 200
    for host in ("0.0.0.0", "::", "::0", "0"):
        with pytest.raises(ConfigurationError, match=r"spark\.penstock\.ui\.token=none") as refused:
            started(token="none", host=host)
        assert f"spark.penstock.ui.host={host}" in str(refused.value)


def test_server_on_all_addresses_has_a_token_and_answers_no_stranger(
    started: Callable[..., FakeListenerContext],
) -> None:
    context = started(host="0.0.0.0")
    parts = urlsplit(context.ui_url)
    base = f"http://127.0.0.1:{parts.port}"
    assert status(f"{base}{APPLICATIONS}", {"Host": "evil.example"}) == 401
    assert status(f"{base}{APPLICATIONS}") == 401
    assert status(f"{base}/?{parts.query}") == 303


def test_fixed_token_is_in_no_address(
    started: Callable[..., FakeListenerContext], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="penstock")
    context = started(token="topsecret")
    assert status(context.ui_url + APPLICATIONS, {"Authorization": "Bearer topsecret"}) == 200
    assert status(context.ui_url) == 401
    assert "topsecret" not in context.ui_url + context.batch_page + caplog.text


def test_variable_of_the_driver_has_the_token_unless_the_configuration_has(
    started: Callable[..., FakeListenerContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("of-kubernetes", "none"):
        monkeypatch.setenv("PENSTOCK_UI_TOKEN", value)
        context = started()
        assert value not in context.ui_url
        assert status(context.ui_url + APPLICATIONS) == 401
        assert status(context.ui_url + APPLICATIONS, {"Authorization": f"Bearer {value}"}) == 200
    assert status(started(token="other").ui_url + APPLICATIONS, {"Authorization": "Bearer other"}) == 200
    assert status(started(token="none").ui_url + APPLICATIONS) == 200


def test_generated_token_is_logged_once_in_the_address_for_the_operator(
    started: Callable[..., FakeListenerContext], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="penstock")
    context = started()
    token = context.ui_url.partition("token=")[2]
    status(context.ui_url)
    (line,) = [record.getMessage() for record in caplog.records if token in record.getMessage()]
    assert "dashboard started" in line
    assert context.ui_url in line


def test_address_with_the_generated_token_is_printed_on_a_terminal(
    started: Callable[..., FakeListenerContext], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("penstock_ui.start._is_terminal", lambda: True)
    context = started()
    assert capsys.readouterr().err == f"Dashboard: {context.ui_url}\n"
    started(token="none")
    started(token="fixed")
    assert capsys.readouterr().err == ""


def cookie_of(server: UIServer, host: str | None = None, **headers: str) -> str:
    if host is not None:
        headers["Host"] = host
    response, _ = request(server, "/?token=x", headers)
    assert response.status == 303
    assert response.getheader("Location") == "/"
    return response.getheader("Set-Cookie", "")


def test_token_in_a_query_is_exchanged_for_a_cookie_at_once(serve: Serve) -> None:
    server = serve(token="x")
    for path in ("/batch?id=5&", "/metrics?", f"{APPLICATIONS}?", "/healthz?"):
        response, body = request(server, f"{path}token=x")
        assert response.status == 303
        assert response.getheader("Location") == path.rstrip("?&")
        assert b"penstock_" not in body
    cookie = cookie_of(server)
    value, *attributes = cookie.split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    # The cookie is not the token: it opens this dashboard only, at this name only.
    assert not value.endswith("=x")
    assert "Secure" not in attributes
    assert "Secure" in cookie_of(server, **{"X-Forwarded-Proto": "https"}).split("; ")


def test_cookie_is_valid_for_the_host_and_origin_it_was_set_for(serve: Serve) -> None:
    server = serve(token="x")
    own = "{}:{}".format(*address(server))
    cookie = cookie_of(server).partition(";")[0]

    def answer(**headers: str) -> int:
        return request(server, APPLICATIONS, {"Cookie": cookie, **headers})[0].status

    assert answer() == answer(Origin=f"http://{own}") == 200
    assert answer(Host="evil.example") == 401
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null"):
        assert answer(Origin=origin) == 403
    # A reverse proxy that passes its own name on.
    proxied = cookie_of(server, "dash.example").partition(";")[0]
    assert request(server, APPLICATIONS, {"Cookie": proxied, "Host": "dash.example"})[0].status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null"])
def test_page_of_another_origin_is_refused_without_token(serve: Serve, origin: str) -> None:
    server = serve()
    own = "{}:{}".format(*address(server))
    assert request(server, APPLICATIONS, {"Origin": f"http://{own}"})[0].status == 200
    response, body = request(server, APPLICATIONS, {"Origin": origin})
    assert response.status == 403
    assert origin in json.loads(body)["error"]
    assert request(server, "/ws", {**UPGRADE, "Origin": origin})[0].status == 403


def test_refusal_is_a_page_for_a_browser_and_json_for_a_script(serve: Serve) -> None:
    server = serve(token="x")
    response, page = request(server, "/", {"Accept": "text/html,*/*"})
    assert response.status == 401
    assert str(response.getheader("Content-Type")).startswith("text/html")
    assert b"ssc.uiWebUrl" in page
    assert "ssc.uiWebUrl" in json.loads(request(server, APPLICATIONS)[1])["error"]
    _, page = request(serve(), "/", {"Accept": "text/html", "Host": "<b>evil"})
    assert b"<b>" not in page


@pytest.mark.parametrize(
    "path", ["/", "/streams", APPLICATIONS, "/metrics", "/healthz", "/none", "/api/none", "/static/js/bokeh.min.js"]
)
@pytest.mark.parametrize("token", ["", "x"], ids=["no token", "refused"])
def test_every_answer_has_the_security_headers(serve: Serve, path: str, token: str) -> None:
    response, _ = request(serve(token=token), path)
    policy = dict(part.strip().split(" ", 1) for part in str(response.getheader("Content-Security-Policy")).split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["object-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert response.getheader("X-Frame-Options") == "DENY"
    assert response.getheader("X-Content-Type-Options") == "nosniff"
    assert response.getheader("Referrer-Policy") == "no-referrer"
    assert response.getheader("Cross-Origin-Resource-Policy") == "same-origin"
    assert response.getheader("Access-Control-Allow-Origin") is None
    assert response.getheader("Cache-Control") == "no-store"


@pytest.mark.parametrize("path", ["/autoload.js?bokeh-autoload-element=1", "/metadata", "/batch/autoload.js"])
def test_pages_cannot_be_embedded_in_others(serve: Serve, path: str) -> None:
    assert request(serve(), path)[0].status == 404


def test_pages_have_no_inline_script(serve: Serve) -> None:
    _, page = request(serve(), "/")
    scripts = [tag.split(b">")[0] for tag in page.split(b"<script")[1:]]
    assert scripts
    assert all(b" src=" in tag or b"application/json" in tag for tag in scripts)
    for name in (b"dashboard.js", b"dashboard.css"):
        (path,) = {part.split(b'"')[0] for part in page.split(b'"') if name in part}
        response, _ = request(serve(), "/" + path.decode())
        assert response.status == 200
        # The same for everybody, and of a version: the only answers that may be stored.
        assert "no-store" not in str(response.getheader("Cache-Control"))


def test_prometheus_sends_the_token_as_its_documentation_says(serve: Serve) -> None:
    server = serve(token="x")
    scrape = Request(f"{server.url}/metrics", headers={"Authorization": "Bearer x"})
    with urlopen(scrape, timeout=10) as response:
        assert b"penstock_up" in response.read()


def test_operator_address_of_a_server_is_its_url_with_a_generated_token(source: Any) -> None:
    server = UIServer(source, port=0)
    server.start()
    try:
        assert server.address.startswith(f"{server.url}/?token=")
        assert request(server, "/healthz")[0].status == 401
    finally:
        server.stop()
