"""``PageServer``: Bokeh's server, limited to pages that were opened here and to a number of them."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from importlib import resources

from bokeh.application import Application
from bokeh.server.tornado import BokehTornado
from bokeh.util.token import check_token_signature, get_session_id, get_token_payload
from tornado.httputil import HTTPServerRequest
from tornado.iostream import IOStream
from tornado.web import RequestHandler, StaticFileHandler

from penstock.spi import get_logger
from penstock_ui.access import Refusal

log = get_logger("ui")

#: Open pages: each is rendered every second, under the interpreter lock of the driver.
MOST_PAGES = 40


class PageServer(BokehTornado):
    """The Tornado application with every page.

    A page's web socket must carry the signed token that the page contains. Bokeh's ways to embed a page in another one
    are closed.

    Args:
        applications: by path.
    """

    def __init__(self, applications: Mapping[str, Application]) -> None:
        # Connections of page requests that are not answered, and of web sockets with their page's session.
        self._admitted: dict[IOStream, str | None] = {}
        for name in ("server.views.ws", "server.views.session_handler", "server.protocol_handler", "protocol"):
            logging.getLogger(f"bokeh.{name}").addFilter(_report)
        files = str(resources.files(__package__) / "static")
        super().__init__(
            dict(applications),
            extra_patterns=[(r"/assets/(.*)", StaticFileHandler, {"path": files})],
            use_index=False,
            include_headers=[],
            include_cookies=[],
            sign_sessions=True,
            secret_key=secrets.token_bytes(32),
            check_unused_sessions_milliseconds=5000,
            unused_session_lifetime_milliseconds=10_000,
            stats_log_frequency_milliseconds=3_600_000,
        )

    @property
    def websocket_origins(self) -> set[str]:
        """Any: the router has compared the origin with the Host."""
        return {"*"}

    def refusal(self, request: HTTPServerRequest) -> Refusal | None:
        """Why a request is refused; ``None`` if it may be answered."""
        path = request.path
        if path.endswith(("/autoload.js", "/metadata")):
            return Refusal(404, f"no such page: {path[:100]}")
        if path.endswith("/ws"):
            session_id = self._session_of(request)
            if session_id is None:
                return Refusal(403, "web socket of no page, or of one that was opened long ago: load the page again")
            return self._admit(request, session_id)
        is_page = (path.rstrip("/") or "/") in self.app_paths
        return self._admit(request, None) if is_page else None

    def log_request(self, handler: RequestHandler) -> None:
        # Answered: Bokeh knows the session of a page. A web socket holds its place until it is closed.
        if handler.get_status() != HTTPStatus.SWITCHING_PROTOCOLS:
            self._admitted.pop(_stream(handler.request), None)
        super().log_request(handler)

    def _session_of(self, request: HTTPServerRequest) -> str | None:
        """The session of the page that a web socket belongs to; ``None`` if it has no valid token of a page."""
        _name, _, token = request.headers.get("Sec-WebSocket-Protocol", "").replace(" ", "").partition(",")
        try:
            is_signed = check_token_signature(token, self.secret_key, signed=True)
            is_valid = is_signed and get_token_payload(token)["session_expiry"] > time.time()
            return get_session_id(token) if is_valid else None
        # Bokeh decodes the token before it has checked the signature.
        except (ValueError, LookupError, TypeError, AttributeError, AssertionError):
            return None

    def _admit(self, request: HTTPServerRequest, session_id: str | None) -> Refusal | None:
        """Give a request its place at once: Bokeh counts it later, when many others may have been admitted."""
        admitted = {stream: session for stream, session in self._admitted.items() if not stream.closed()}
        admitted[_stream(request)] = session_id
        # A page whose browser has not connected yet, or has left some seconds ago, counts as well.
        sessions = {str(session.id) for path in self.app_paths for session in self.get_sessions(path)}
        if len(admitted) + len(sessions.difference(admitted.values())) > MOST_PAGES:
            return Refusal(
                503, f"{MOST_PAGES} pages of the dashboard are open, the most allowed: close one, and try again"
            )
        self._admitted = admitted
        return None


def _stream(request: HTTPServerRequest) -> IOStream:
    """The connection of a request."""
    stream: IOStream = request.connection.stream  # type: ignore[union-attr]  # HTTP/1 is the only kind
    return stream


def _report(record: logging.LogRecord) -> bool:
    """Report an error of Bokeh's about a browser in one line, without traceback; other servers' errors pass."""
    if threading.current_thread().name != "penstock-ui":
        return True
    message = record.getMessage()
    # A browser disconnected while its page was updated.
    if record.levelno >= logging.WARNING and "connection was closed" not in message:
        log.warning("message of a page refused", reason=message.partition("\n")[0][:200], throttle_s=60)
    return False
