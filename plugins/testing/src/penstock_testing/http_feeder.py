"""``HttpFeeder``: records over HTTP, for a receiver under test that polls a server or is itself one (a webhook)."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from penstock_testing.feeder import Feeder

_HOST = "127.0.0.1"
_POLL_S, _RETRY_S, _JOIN_S, _ANSWER_S = 0.01, 0.01, 5.0, 30.0


class HttpFeeder(Feeder):
    """Serves records, or posts them. A record is any JSON value.

    A serving feeder answers at ``url``:

    - ``GET ?position=N&limit=M`` → ``{"records": [[position, record], ...], "end": false}``, at once: the records from
      a position, or, without it, those that are not acknowledged. ``end`` is true when no record will follow.
    - ``POST`` of a list of positions acknowledges these records.

    A posting feeder posts each record to ``url``, in order, and retries until the receiver answers with a success
    status. That answer acknowledges the record.

    Options: ``url`` when it serves; ``host`` and ``port``, where to listen, when it posts.

    Args:
        posts: post records to the receiver instead of serving them.

    Attributes:
        port: the port of this server or, when it posts, of the receiver.
    """

    def __init__(self, *, posts: bool = False) -> None:
        self._changed = threading.Condition()
        self._records: list[Any] = []
        self._acknowledged: dict[int, None] = {}  # positions, in the order of acknowledgement
        self._polls, self._state = 0, "up"
        self._posts = posts
        # Holds the port during a cut: a bound socket that does not listen refuses connections.
        self._placeholder: socket.socket | None = None
        self._server: _Server | None = None
        if posts:
            with _bound(0) as probe:
                self.port: int = probe.getsockname()[1]
            self._thread = _start(self._post_all)
        else:
            self._server = _Server(self, 0)
            self.port = self._server.server_address[1]

    @property
    def url(self) -> str:
        """The address at which records are served, or to which they are posted."""
        return f"http://{_HOST}:{self.port}/"

    def options(self) -> Mapping[str, Any]:
        """The address."""
        return {"host": _HOST, "port": self.port} if self._posts else {"url": self.url}

    def put(self, records: Sequence[Any]) -> None:
        """Make records available, or queue them for posting."""
        with self._changed:
            self._records.extend(records)
            self._changed.notify_all()

    def pause(self) -> None:
        """Leave requests unanswered, or post nothing."""
        self._set("paused")

    def cut(self) -> None:
        """Refuse connections."""
        if self._server is None:
            self._unable("cut")
        self._set("cut")
        self._server.end()
        self._placeholder = _bound(self.port)

    def heal(self) -> None:
        """Serve or post again."""
        self._set("up")
        if self._placeholder is not None:
            self._placeholder.close()
            self._placeholder = None
            self._server = _Server(self, self.port)

    def end(self) -> None:
        """Answer further requests with ``end`` once every record is served."""
        if self._server is None:
            self._unable("end")
        self._set("ended")

    def acknowledged(self) -> list[Any]:
        """The acknowledged records."""
        with self._changed:
            return [self._records[position] for position in self._acknowledged]

    def polls(self) -> int:
        """Requests so far."""
        if self._server is None:
            self._unable("polls")
        return self._polls

    def close(self) -> None:
        """End everything."""
        self._set("closed")
        if self._posts:
            self._thread.join(_JOIN_S)
        if self._placeholder is not None:
            self._placeholder.close()
        elif self._server is not None:
            self._server.end()

    def _set(self, state: str) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()

    # -- serving --

    def _answer(self, query: Mapping[str, list[str]]) -> Any:
        """The answer to a request; ``None`` to close the connection instead."""
        with self._changed:
            self._polls += 1
            self._changed.wait_for(lambda: self._state != "paused")
            if self._state not in {"up", "ended"}:
                return None
            first, limit = int(query.get("position", ["0"])[0]), int(query.get("limit", ["1000"])[0])
            all_records = "position" in query
            positions = [
                each for each in range(first, len(self._records)) if all_records or each not in self._acknowledged
            ]
            found = [[position, self._records[position]] for position in positions[:limit]]
            return {"records": found, "end": self._state == "ended" and len(positions) <= limit}

    def _acknowledge(self, positions: list[int]) -> None:
        with self._changed:
            for position in positions:
                self._acknowledged.setdefault(position)

    # -- posting --

    def _post_all(self) -> None:
        position = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._state == "closed" or self._is_due(position))  # noqa: B023
                if self._state == "closed":
                    return
                record = self._records[position]
            if self._is_accepted(record):
                self._acknowledge([position])
                position += 1
            else:
                with self._changed:
                    self._changed.wait_for(lambda: self._state == "closed", _RETRY_S)

    def _is_due(self, position: int) -> bool:
        return self._state == "up" and position < len(self._records)

    def _is_accepted(self, record: Any) -> bool:
        """Post a record; return whether the answer is a success."""
        connection = http.client.HTTPConnection(_HOST, self.port, timeout=_ANSWER_S)
        try:
            connection.request("POST", "/", json.dumps(record), {"Content-Type": "application/json"})
            return 200 <= connection.getresponse().status < 300
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    """Serves on threads with names that the leak meter ignores."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, feeder: HttpFeeder, port: int) -> None:
        self.feeder = feeder
        super().__init__((_HOST, port), _Handler)
        self._thread = _start(lambda: self.serve_forever(_POLL_S))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread of its own."""
        _start(lambda: self.process_request_thread(request, client_address))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a check may end the receiver during a request."""

    def end(self) -> None:
        """Stop serving and close the socket."""
        self.shutdown()
        self.server_close()
        self._thread.join(_JOIN_S)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        answer = self.server.feeder._answer(parse_qs(urlsplit(self.path).query))
        if answer is None:
            self.close_connection = True
            return
        self._send(json.dumps(answer).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.server.feeder._acknowledge(json.loads(body))
        self._send(b"")

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Print nothing."""


def _start(target: Any) -> threading.Thread:
    thread = threading.Thread(target=target, name="penstock kit HTTP feeder", daemon=True)
    thread.start()
    return thread


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((_HOST, port))
    return bound
