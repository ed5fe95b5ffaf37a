"""``UIServer``: one Tornado server for REST, Prometheus and the dashboard, on a thread with its own event loop.

It binds its port when it is started, checks the token of every request, and answers ``/api/…`` and ``/metrics`` itself.
All other paths belong to the dashboard: the Tornado application that ``dashboard(source, origins)`` of the module
``penstock_ui.dashboard`` returns. It is made at the first request for it, because Bokeh takes a second to import.
"""

from __future__ import annotations

import asyncio
import hmac
import importlib
import json
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlencode

from tornado import httputil, web
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.routing import Router

from penstock.helpers import get_logger
from penstock_ui import rest
from penstock_ui.prometheus import CONTENT_TYPE, exposition
from penstock_ui.snapshot import Snapshot

log = get_logger("ui")

# What a client may take to read an answer, or to answer a ping on a web socket.
_CLIENT_TIMEOUT_S = 30.0
_STOP_S = 5.0
_LOOPBACK = ("127.", "::1", "localhost")
_ALL = ("0.0.0.0", "::")
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class Source(Protocol):
    """Where pages and requests get the state: a running application, or a history. Any thread may call it."""

    def snapshot(self) -> Snapshot:
        """The state now."""
        ...


class UIServer:
    """Serves one application.

    Args:
        source: the state.
        host: address to listen on.
        port: first port to try; 0 for any.
        retries: how many ports after it to try.
        token: what every request must carry; empty for nothing.
        name: of this host, for the address when the server listens on all of the host's.

    Attributes:
        url: address of the dashboard, without the token; empty before the start.
    """

    def __init__(
        self,
        source: Source,
        host: str = "127.0.0.1",
        port: int = 4050,
        retries: int = 16,
        token: str = "",
        name: str = "localhost",
    ) -> None:
        self._source, self._host, self._token, self._name = source, host, token, name
        self._ports = range(port, min(port + retries, 65535) + 1) if port else [0]
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="penstock-ui", daemon=True)
        self.url = ""

    def start(self) -> None:
        """Bind a port and start to serve.

        Raises:
            OSError: none of the ports is free, or the address is not of this host.
        """
        self._socket = self._bind()
        port = self._socket.getsockname()[1]
        name = self._name if self._host in _ALL else self._host
        self.url = f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
        if not self._token and not self._host.startswith(_LOOPBACK):
            log.warning("dashboard open to other hosts without token", address=self.url, key="spark.penstock.ui.token")
        self._thread.start()
        self._ready.result(_STOP_S * 4)
        log.info("dashboard started", address=self.url)

    def stop(self) -> None:
        """Close the port and every connection. Can be repeated."""
        if self._loop is not None and self._thread.is_alive():
            stopping = self._loop
            stopping.call_soon_threadsafe(stopping.stop)
            self._thread.join(_STOP_S)
        elif self._socket is not None:
            self._socket.close()

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        for port in self._ports:
            try:
                return socket.create_server((self._host, port), family=family, backlog=128)
            except OSError:
                if port == self._ports[-1]:
                    raise
        raise AssertionError("there is always a port to try")

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        self._loop = loop
        assert self._socket is not None
        listening = self._socket
        try:
            router = _Router(self._source, self._token, listening.getsockname()[1], self._host)
            server = HTTPServer(
                router,
                max_header_size=1 << 16,
                max_body_size=1 << 20,
                idle_connection_timeout=60,
                body_timeout=_CLIENT_TIMEOUT_S,
            )
            listening.setblocking(False)
            loop.call_soon(lambda: server.add_sockets([listening]))
            loop.call_soon(self._ready.set_result, None)
            loop.run_forever()
            router.stop()
            server.stop()
            loop.run_until_complete(asyncio.wait_for(server.close_all_connections(), _STOP_S))
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            log.exception("dashboard ended")
        finally:
            listening.close()
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()


class _Router(Router):
    """Finds the application for a request, if the request may have one."""

    def __init__(self, source: Source, token: str, port: int, host: str) -> None:
        self._source, self._token, self._host = source, token.encode(), host
        # Browsers on this host may read the state, web pages of others may not.
        self._is_private = not token and host.startswith(_LOOPBACK)
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
        """The application that answers a request."""
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
        if self._dashboard is not None and hasattr(self._dashboard, "stop"):
            self._dashboard.stop(wait=False)

    def _is_of_this_host(self, name: str) -> bool:
        """Whether a browser asks for this server, and not for a name that somebody else lets point here."""
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return name.lower() in ("localhost", self._host.lower())
        return True

    def _is_authorized(self, request: httputil.HTTPServerRequest) -> bool:
        """Whether a request has the token, in constant time."""
        given = list(request.query_arguments.get("token", ()))
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            # Tornado decodes headers so.
            given.append(credentials.strip().encode("latin-1", "replace"))
        if self._cookie in request.cookies:
            given.append(unquote(request.cookies[self._cookie].value).encode())
        return any(hmac.compare_digest(each, self._token) for each in given)

    def _pages(self) -> Any:
        if self._dashboard is None:
            self._dashboard = self._make_dashboard()
        return self._dashboard

    def _make_dashboard(self) -> web.Application:
        try:
            module = importlib.import_module("penstock_ui.dashboard")
        except ModuleNotFoundError:
            return _application(
                [(r"/", _IndexHandler, {"source": self._source})], default_handler_class=_UnknownHandler
            )
        pages: web.Application = module.dashboard(self._source, self._origins)
        # A browser that stops reading is disconnected; the token in a query is logged nowhere.
        pages.settings.update(
            websocket_ping_interval=_CLIENT_TIMEOUT_S / 2,
            websocket_ping_timeout=_CLIENT_TIMEOUT_S / 2,
            log_function=_log_request,
        )
        if hasattr(pages, "initialize"):
            pages.initialize(IOLoop.current())
            pages.start()  # type: ignore[attr-defined]  # Bokeh's application
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
    """Log a request without its query, which may hold the token."""
    if handler.get_status() >= 500:
        request = handler.request
        log.warning("request failed", method=request.method, path=request.path, status=handler.get_status())


class _Handler(web.RequestHandler):
    """Answers with JSON, also when it fails."""

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def finish(self, chunk: Any = None) -> asyncio.Future[None]:
        written: asyncio.Future[None] = super().finish(chunk)
        # A client that stops reading: its answer must not stay in memory.
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
        # Escaped, so that a browser that takes it for HTML finds no tag.
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
    """Moves the token of a page's address into a cookie, so that links, scripts and web sockets have it."""

    def initialize(self, cookie: str, token: str) -> None:
        self._cookie, self._token = cookie, token

    def get(self) -> None:
        self.set_cookie(self._cookie, self._token, httponly=True, samesite="Strict")
        # One slash: two would be another host.
        path, query = "/" + self.request.path.lstrip("/"), self.request.query
        self.redirect(f"{path}?{query}" if query else path, status=303)


class _IndexHandler(_Handler):
    def initialize(self, source: Source) -> None:
        self._source = source

    def get(self) -> None:
        app_id = self._source.snapshot().application.id
        base = f"/api/v1/applications/{app_id}/streaming"
        self.write_json({"metrics": "/metrics", "statistics": f"{base}/statistics", "batches": f"{base}/batches"})
