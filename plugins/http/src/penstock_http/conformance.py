"""Conformance suites of the receivers of this distribution, for ``penstock plugins check``."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import Any, ClassVar

from penstock_brokers import free_port
from penstock_http.push_server import PushServer
from penstock_http.sse_receiver import POSITION
from penstock_testing import Capabilities, Feeder, ReceiverSuite

_PAUSE_S = 0.02
_PATIENCE_S = 60.0
_LIMIT = 150_000


class RequestFeeder(Feeder):
    """Sends each record as the body of a request, one after the other, until it is answered with 200 or refused."""

    lacks: ClassVar = {
        "refused_acknowledgements": "an answer belongs to its request's connection, and there is no other",
        "lease_s": "a sender decides how long it waits, and nothing prolongs that",
        "rebalances": "a sender has one address: which receiver gets a request is decided before the receivers",
        "dead_letters": "what cannot be decoded is answered with 400 and stays with its sender",
        "in_flight": "a receiver fetches nothing: senders decide how many requests wait, up to max_waiting_bytes",
    }

    def __init__(self) -> None:
        self._port = free_port()
        self._bodies: queue.SimpleQueue[tuple[Any, bytes] | None] = queue.SimpleQueue()
        self._acknowledged: list[Any] = []
        self._taken = 0
        self._has_ended = threading.Event()
        # A request that is held is not repeated.
        self._connection = HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE_S)
        self._thread = threading.Thread(target=self._send_all, name="request feeder", daemon=True)
        self._thread.start()

    def options(self) -> Mapping[str, Any]:
        return {"port": self._port}

    def put(self, records: Sequence[Any]) -> None:
        for record in records:
            self._bodies.put((record, record.encode()))

    def put_bad(self) -> None:
        self._bodies.put((None, b"\xff\xfe"))

    def oversize(self) -> tuple[Any, str]:
        return "x" * (_LIMIT + 1), "dropped"

    def acknowledged(self) -> list[Any]:
        return list(self._acknowledged)

    def taken(self) -> int:
        return self._taken

    def close(self) -> None:
        self._has_ended.set()
        self._bodies.put(None)
        with suppress(OSError, AttributeError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _send_all(self) -> None:
        connection = self._connection
        while (item := self._bodies.get()) is not None:
            record, body = item
            while not self._has_ended.is_set():
                try:
                    connection.request("POST", "/", body)
                    answer = connection.getresponse()
                    answer.read()
                except (OSError, HTTPException):
                    connection.close()
                else:
                    if answer.status == 200:
                        self._acknowledged.append(record)
                    if answer.status < 429:
                        self._taken += 1
                        break
                self._has_ended.wait(_PAUSE_S)
            if self._bodies.empty():
                # Not a descriptor that the receiver has left open.
                connection.close()
        connection.close()


class PushFeeder(Feeder):
    """Sends each record as a message of a ``PushServer``."""

    path: ClassVar[str]

    def __init__(self) -> None:
        self._server = PushServer()

    def options(self) -> Mapping[str, Any]:
        return {"url": self.path.format(port=self._server.port)}

    def put(self, records: Sequence[Any]) -> None:
        self._server.put(records)

    def pause(self) -> None:
        self._server.pause()

    def cut(self) -> None:
        self._server.cut()

    def heal(self) -> None:
        self._server.listen()

    def taken(self) -> int:
        return self._server.num_sent

    def polls(self) -> int:
        return self._server.connections

    def close(self) -> None:
        self._server.close()


class WebSocketFeeder(PushFeeder):
    """Sends messages of a WebSocket."""

    path = "ws://127.0.0.1:{port}/socket"

    def put_bad(self) -> None:
        self._server.put([b"\xff\xfe"])

    def oversize(self) -> tuple[Any, str]:
        return "x" * (_LIMIT + 1), "error"


class EventFeeder(PushFeeder):
    """Sends server-sent events."""

    path = "http://127.0.0.1:{port}/events"

    def odd_records(self) -> list[Any]:
        # The format has no event without data, and ends lines at carriage returns.
        return [record for record in super().odd_records() if record] + ["two\nlines", " leading", "a: b"]

    def oversize(self) -> tuple[Any, str]:
        return "x" * (_LIMIT + 1), "dropped"

    def position_options(self, position: Mapping[str, Any]) -> Mapping[str, Any]:
        return {POSITION: position[POSITION]}

    def end(self) -> None:
        self._server.end()


class WebhookSuite(ReceiverSuite):
    """The receiver ``webhook``, which listens itself: nothing cuts it off from a source."""

    name = "webhook"
    feeder = RequestFeeder
    options: ClassVar = {"columns": ("value",), "value_as": "text", "max_body_bytes": _LIMIT, "linger": 0.0}
    capabilities = Capabilities(acknowledged=True, arrow=True, reconnects=False)


class WebSocketSuite(ReceiverSuite):
    """The receiver ``websocket``."""

    name = "websocket"
    feeder = WebSocketFeeder
    options: ClassVar = {"max_message_bytes": _LIMIT}
    capabilities = Capabilities(arrow=True)


class SseSuite(ReceiverSuite):
    """The receiver ``sse``."""

    name = "sse"
    feeder = EventFeeder
    options: ClassVar = {"columns": ("value",), "max_message_bytes": _LIMIT}
    capabilities = Capabilities(arrow=True, replayable=True)
