"""The Tornado applications of the server, and the router that chooses one for each request.

The router checks access, and answers ``/api/…`` and ``/metrics`` itself. ``penstock_ui.dashboard`` serves all other
paths. It is imported at the first such request, because importing Bokeh takes a second.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from html import escape
from socket import socket
from typing import Any
from weakref import WeakSet

from tornado import httputil, web
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream
from tornado.routing import Router

from penstock.spi import get_logger, printable
from penstock_ui import rest
from penstock_ui.access import Access, Refusal, Token, is_secure, without_token
from penstock_ui.prometheus import CONTENT_TYPE, exposition
from penstock_ui.snapshot import Source

log = get_logger("ui")

#: Open connections, without those of open pages; beyond this the one that has waited longest for a request is closed.
MOST_CONNECTIONS = 200
# Maximum time for a client to send the head of a request, to read a response, and to answer a ping on a web socket.
_REQUEST_TIMEOUT_S = 20.0
_CLIENT_TIMEOUT_S = 30.0
# Requests have no body, and the messages of a page are small.
_MOST_BYTES = 1 << 16
_STOP_S = 5.0
# Bokeh needs style elements; no script is inline. Web sockets to the same host and port count as 'self'.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def serve(listening: socket, wake: socket, source: Source, token: Token, host: str) -> None:
    """Answer requests until a socket becomes readable.

    Args:
        listening: the listening socket.
        wake: ends the server when it becomes readable.
        source: the state.
        token: the token that every request must carry.
        host: the address that ``listening`` is bound to.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        router = _Router(source, Access(token, host, listening.getsockname()[1]))
        server = _Server(
            router,
            max_header_size=_MOST_BYTES,
            max_body_size=_MOST_BYTES,
            max_buffer_size=1 << 20,
            idle_connection_timeout=_REQUEST_TIMEOUT_S,
            body_timeout=_CLIENT_TIMEOUT_S,
        )
        router.on_accepted = server.used
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


class _Server(HTTPServer):
    """Limits the number of connections; those of web sockets leave the server, and are limited as pages."""

    def initialize(self, *arguments: Any, **options: Any) -> None:
        super().initialize(*arguments, **options)
        # The connection whose last accepted request is the oldest comes first.
        self._streams = dict[IOStream, None]()
        # Also those that Tornado has given to a web socket.
        self._open = WeakSet[IOStream]()

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        if len(self._streams) >= MOST_CONNECTIONS:
            log.warning("idle connection closed", limit=MOST_CONNECTIONS, throttle_s=60)
            oldest = next(iter(self._streams))
            del self._streams[oldest]
            oldest.close()
        self._streams[stream] = None
        self._open.add(stream)
        super().handle_stream(stream, address)

    def used(self, stream: IOStream) -> None:
        """Note that a connection has sent a request that is answered."""
        if stream in self._streams:
            self._streams[stream] = self._streams.pop(stream)

    def on_close(self, server_conn: Any) -> None:
        self._streams.pop(server_conn.stream, None)
        super().on_close(server_conn)

    async def close_all_connections(self) -> None:
        """Close every connection; Tornado leaves those of web sockets open."""
        await super().close_all_connections()
        for stream in list(self._open):
            stream.close()


class _Router(Router):
    """Chooses the application for a request, or refuses it."""

    def __init__(self, source: Source, access: Access) -> None:
        self._source = source
        self._access = access
        self._own = web.Application(
            [
                (r"/api/v1/(.*)", _RestHandler, {"source": source}),
                (r"/metrics/?", _MetricsHandler, {"source": source}),
                (r"/healthz/?", _HealthHandler),
            ],
            default_handler_class=_UnknownHandler,
            transforms=[_SecurityHeaders],
            log_function=_log_request,
        )
        self._dashboard: Any = None
        #: Called with the connection of each request that is not refused.
        self.on_accepted: Callable[[Any], None] = lambda _stream: None

    def find_handler(self, request: httputil.HTTPServerRequest, **kwargs: Any) -> httputil.HTTPMessageDelegate | None:
        refusal = self._access.refusal(request)
        is_entrance = request.method == "GET" and self._access.has_token_in_query(request)
        without_token(request)
        if refusal is not None:
            return self._refused(request, refusal)
        self.on_accepted(getattr(request.connection, "stream", None))
        if is_entrance:
            cookie = (self._access.cookie_name, self._access.cookie(request))
            return self._own.get_handler_delegate(request, _EntranceHandler, {"cookie": cookie})
        if request.path.startswith(("/api/", "/metrics", "/healthz")):
            return self._own.find_handler(request, **kwargs)
        pages = self._pages()
        refusal = pages.refusal(request)
        if refusal is not None:
            return self._refused(request, refusal)
        return pages.find_handler(request, **kwargs)  # type: ignore[no-any-return]  # of Bokeh

    def stop(self) -> None:
        """End the dashboard's sessions."""
        if self._dashboard is not None:
            self._dashboard.stop(wait=False)

    def _refused(self, request: httputil.HTTPServerRequest, refusal: Refusal) -> httputil.HTTPMessageDelegate:
        log.warning(
            "dashboard request refused",
            peer=request.remote_ip,
            status=refusal.status,
            reason=refusal.message,
            throttle_s=60,
        )
        return self._own.get_handler_delegate(request, _RefusalHandler, {"refusal": refusal})

    def _pages(self) -> Any:
        if self._dashboard is None:
            pages = importlib.import_module("penstock_ui.dashboard").dashboard(self._source)
            # The pings disconnect a browser that stops reading. The log function keeps the query out of the log.
            pages.settings.update(
                websocket_ping_interval=_CLIENT_TIMEOUT_S / 2,
                websocket_ping_timeout=_CLIENT_TIMEOUT_S / 2,
                websocket_max_message_size=_MOST_BYTES,
                log_function=_log_request,
            )
            pages.add_transform(_SecurityHeaders)
            pages.initialize(IOLoop.current())
            pages.start()
            self._dashboard = pages
        return self._dashboard


class _SecurityHeaders(web.OutputTransform):
    """Adds the headers that every answer has. Only files of a fixed version may be cached."""

    def transform_first_chunk(
        self, status_code: int, headers: httputil.HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, httputil.HTTPHeaders, bytes]:
        headers.update(_HEADERS)
        headers.setdefault("Cache-Control", "no-store")
        return status_code, headers, chunk


def _log_request(handler: web.RequestHandler) -> None:
    """Log a failed request without its query."""
    if handler.get_status() >= 500 and not isinstance(handler, _RefusalHandler):
        request = handler.request
        log.warning("request failed", method=request.method, path=request.path, status=handler.get_status())


class _Handler(web.RequestHandler):
    """Responds with JSON, including for errors."""

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
        text = printable(json.dumps(value, ensure_ascii=False, allow_nan=False))
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
        self.finish(printable(exposition(self._source.snapshot())))


class _HealthHandler(_Handler):
    def get(self) -> None:
        self.write_json({"status": "ok"})


class _UnknownHandler(_Handler):
    def prepare(self) -> None:
        self.send_error(404, message=f"no such page: {self.request.path}")


class _RefusalHandler(_Handler):
    """Says why a request is refused: as a page to a browser, else as JSON."""

    def initialize(self, refusal: Refusal) -> None:
        self._refusal = refusal

    def prepare(self) -> None:
        self.set_status(self._refusal.status)
        if self._refusal.status == 401:
            self.set_header("WWW-Authenticate", "Bearer")
        if self._refusal.status == 503:
            self.set_header("Retry-After", "30")
        if "text/html" in self.request.headers.get("Accept", ""):
            self.finish(_PAGE.format(title=f"Penstock: {self._reason}", text=escape(printable(self._refusal.message))))
        else:
            self.write_json({"error": self._refusal.message})


_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 40em; margin: 3em auto; padding: 0 1em; }}</style>
<h1>{title}</h1>
<p>{text}</p>
</html>
"""


class _EntranceHandler(_Handler):
    """Moves the token from an address into a cookie, so that links, scripts and web sockets send it."""

    def initialize(self, cookie: tuple[str, str]) -> None:
        self._cookie = cookie

    def get(self) -> None:
        self.set_cookie(*self._cookie, httponly=True, samesite="Strict", secure=is_secure(self.request))
        # Exactly one slash: a path with two would name another host.
        path, query = "/" + self.request.path.lstrip("/"), self.request.query
        self.redirect(f"{path}?{query}" if query else path, status=303)
