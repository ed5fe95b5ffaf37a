"""The Tornado applications of the server, and the router that chooses one for each request.

They check the token of every request, and answer ``/api/…`` and ``/metrics`` themselves. ``penstock_ui.dashboard``
serves all other paths. It is imported at the first such request, because importing Bokeh takes a second.
"""

from __future__ import annotations

import asyncio
import hmac
import importlib
import json
from collections.abc import Sequence
from ipaddress import ip_address
from socket import socket
from typing import Any
from urllib.parse import quote, unquote, urlencode

from tornado import httputil, web
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.routing import Router

from penstock.spi import get_logger
from penstock_ui import rest
from penstock_ui.prometheus import CONTENT_TYPE, exposition
from penstock_ui.server import LOOPBACK
from penstock_ui.snapshot import Source

log = get_logger("ui")

# Maximum time for a client to read a response, or to answer a ping on a web socket.
_CLIENT_TIMEOUT_S = 30.0
_STOP_S = 5.0
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def serve(listening: socket, wake: socket, source: Source, token: str, host: str) -> None:
    """Answer requests until a socket becomes readable.

    Args:
        listening: the listening socket.
        wake: ends the server when it becomes readable.
        source: the state.
        token: the token that every request must carry; empty for none.
        host: the address that ``listening`` is bound to.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        router = _Router(source, token, listening.getsockname()[1], host)
        server = HTTPServer(
            router,
            max_header_size=1 << 16,
            max_body_size=1 << 20,
            idle_connection_timeout=60,
            body_timeout=_CLIENT_TIMEOUT_S,
        )
        listening.setblocking(False)
        loop.add_reader(wake, loop.stop)
        loop.call_soon(lambda: server.add_sockets([listening]))
        loop.run_forever()
        # Still readable: it would stop the loop again.
        loop.remove_reader(wake)
        router.stop()
        server.stop()
        loop.run_until_complete(asyncio.wait_for(server.close_all_connections(), _STOP_S))
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


class _Router(Router):
    """Chooses the application for a request, or refuses it."""

    def __init__(self, source: Source, token: str, port: int, host: str) -> None:
        self._source = source
        self._token = token.encode()
        self._host = host
        # Without a token, browsers on this host may read the state, but web pages of other hosts may not.
        self._is_private = not token and host.startswith(LOOPBACK)
        self._cookie = f"penstock-ui-{port}"
        self._own = _application(
            [
                (r"/api/v1/(.*)", _RestHandler, {"source": source}),
                (r"/metrics/?", _MetricsHandler, {"source": source}),
                (r"/healthz/?", _HealthHandler),
            ],
            default_handler_class=_UnknownHandler,
        )
        self._refusal = _application([(r".*", _RefusalHandler)])
        self._stranger = _application([(r".*", _StrangerHandler)])
        self._entrance = _application([(r".*", _EntranceHandler, {"cookie": self._cookie, "token": quote(token)})])
        names = dict.fromkeys((host, "127.0.0.1", "localhost"))
        self._origins = [f"{name}:{port}" for name in names] if self._is_private else ["*"]
        self._dashboard: Any = None

    def find_handler(self, request: httputil.HTTPServerRequest, **kwargs: Any) -> httputil.HTTPMessageDelegate | None:
        is_page = not request.path.startswith(("/api/", "/metrics", "/healthz"))
        if self._token:
            if not self._is_authorized(request):
                return self._refusal.find_handler(request, **kwargs)
            has_token = _remove_token(request)
            if is_page and request.method == "GET" and has_token:
                return self._entrance.find_handler(request, **kwargs)
        if self._is_private and not self._is_of_this_host(request.host_name):
            return self._stranger.find_handler(request, **kwargs)
        if is_page:
            return self._pages().find_handler(request, **kwargs)  # type: ignore[no-any-return]  # of Bokeh
        return self._own.find_handler(request, **kwargs)

    def stop(self) -> None:
        """End the dashboard's sessions."""
        if self._dashboard is not None:
            self._dashboard.stop(wait=False)

    def _is_of_this_host(self, name: str) -> bool:
        """Whether the name is this host's own, and not a foreign name that resolves to it (DNS rebinding)."""
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return name.lower() in ("localhost", self._host.lower())
        return True

    def _is_authorized(self, request: httputil.HTTPServerRequest) -> bool:
        """Whether a request has the token, in constant time."""
        tokens = list(request.query_arguments.get("token", ()))
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            # Tornado decodes headers as Latin-1.
            tokens.append(credentials.strip().encode("latin-1", "replace"))
        if self._cookie in request.cookies:
            tokens.append(unquote(request.cookies[self._cookie].value).encode())
        return any(hmac.compare_digest(token, self._token) for token in tokens)

    def _pages(self) -> Any:
        if self._dashboard is None:
            self._dashboard = self._make_dashboard()
        return self._dashboard

    def _make_dashboard(self) -> Any:
        pages = importlib.import_module("penstock_ui.dashboard").dashboard(self._source, self._origins)
        # The pings disconnect a browser that stops reading. The log function keeps the token out of the log.
        pages.settings.update(
            websocket_ping_interval=_CLIENT_TIMEOUT_S / 2,
            websocket_ping_timeout=_CLIENT_TIMEOUT_S / 2,
            log_function=_log_request,
        )
        pages.initialize(IOLoop.current())
        pages.start()
        return pages


def _remove_token(request: httputil.HTTPServerRequest) -> bool:
    """Remove the token from the query, so that no handler logs it; return whether it was there."""
    request.arguments.pop("token", None)
    if request.query_arguments.pop("token", None) is None:
        return False
    request.query = urlencode([(name, value) for name, values in request.query_arguments.items() for value in values])
    request.uri = f"{request.path}?{request.query}" if request.query else request.path
    return True


def _application(routes: Sequence[Any], **settings: Any) -> web.Application:
    return web.Application(list(routes), log_function=_log_request, **settings)


def _log_request(handler: web.RequestHandler) -> None:
    """Log a failed request without its query, which may contain the token."""
    if handler.get_status() >= 500:
        request = handler.request
        log.warning("request failed", method=request.method, path=request.path, status=handler.get_status())


class _Handler(web.RequestHandler):
    """Responds with JSON, including for errors."""

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def finish(self, chunk: Any = None) -> asyncio.Future[None]:
        written: asyncio.Future[None] = super().finish(chunk)
        # Disconnect a client that stops reading, so that its response does not stay in memory.
        loop = IOLoop.current()
        timeout = loop.call_later(_CLIENT_TIMEOUT_S, self._disconnect)
        written.add_done_callback(lambda _written: loop.remove_timeout(timeout))
        return written

    def _disconnect(self) -> None:
        connection = self.request.connection
        if connection is not None and (stream := getattr(connection, "stream", None)) is not None:
            stream.close()

    def write_json(self, value: Any) -> None:
        self.set_header("Content-Type", "application/json; charset=utf-8")
        # Escaped, so that a browser that mistakes it for HTML finds no tag.
        text = json.dumps(value, ensure_ascii=True, allow_nan=False)
        self.finish(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.write_json({"error": self._reason if status_code >= 500 else kwargs.get("message", self._reason)})


class _RestHandler(_Handler):
    def initialize(self, source: Source) -> None:
        self._source = source

    def get(self, path: str) -> None:
        query = {
            name: [value.decode("utf-8", "replace") for value in values]
            for name, values in self.request.query_arguments.items()
        }
        parts = [part for part in path.split("/") if part]
        try:
            self.write_json(rest.respond(self._source.snapshot(), parts, query))
        except rest.NotFoundError as error:
            self.send_error(404, message=error.message)
        except rest.BadRequestError as error:
            self.send_error(400, message=error.message)


class _MetricsHandler(_Handler):
    def initialize(self, source: Source) -> None:
        self._source = source

    def get(self) -> None:
        self.set_header("Content-Type", CONTENT_TYPE)
        self.finish(exposition(self._source.snapshot()))


class _HealthHandler(_Handler):
    def get(self) -> None:
        self.write_json({"status": "ok"})


class _UnknownHandler(_Handler):
    def prepare(self) -> None:
        self.send_error(404, message=f"no such page: {self.request.path}")


class _RefusalHandler(_Handler):
    def prepare(self) -> None:
        self.set_header("WWW-Authenticate", "Bearer")
        self.send_error(401, message="token missing or wrong: add ?token=… or the header Authorization: Bearer …")


class _StrangerHandler(_Handler):
    def prepare(self) -> None:
        self.send_error(403, message="this name is not the server's: use its address, or set spark.penstock.ui.token")


class _EntranceHandler(_Handler):
    """Moves the token from a page's address into a cookie, so that links, scripts and web sockets send it."""

    def initialize(self, cookie: str, token: str) -> None:
        self._cookie = cookie
        self._token = token

    def get(self) -> None:
        self.set_cookie(self._cookie, self._token, httponly=True, samesite="Strict")
        # Exactly one slash: a path with two would name another host.
        path, query = "/" + self.request.path.lstrip("/"), self.request.query
        self.redirect(f"{path}?{query}" if query else path, status=303)
