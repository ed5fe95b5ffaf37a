"""The authenticated Arrow Flight endpoint of a process: actions carry messages, DoGet streams of record batches.

A call without the application's token, or from another version of Penstock, is refused before its body is parsed.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
from attrs import frozen

from penstock.errors import WireError
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread
from penstock.version import __version__
from penstock.wire.connection_guard import ConnectionGuard
from penstock.wire.json_codec import NOT_FOUND, Reply, StreamNotFoundError, from_json, to_json
from penstock.wire.token import VERSION_HEADER, Signature, Token, content_of

log = get_logger("wire")

# Twice the size of a message with a million block ids.
_MAX_MESSAGE_BYTES = 64 << 20
# Minimum time between two log lines about refused calls: callers without the token must not fill the log.
_THROTTLE_S = 10
# Interval at which a stop disconnects peers without the token: gRPC may accept one while it stops.
_DISCONNECT_S = 0.2

_CALL = "call"

Handler = Callable[[Any], object]
#: Maps a ticket to the schema and the record batches of its stream; raises ``StreamNotFoundError`` for an unknown one.
OpenStream = Callable[[str], tuple[pa.Schema, Iterable[pa.RecordBatch]]]


@frozen
class Ports:
    """The ports to try: ``first`` (0 for any), then up to ``retries`` following ones. ``advice`` ends the error."""

    first: int = 0
    retries: int = 0
    advice: str = ""

    def numbers(self) -> range:
        """The ports to try, in order."""
        return range(self.first, min(self.first + self.retries, 65535) + 1) if self.first else range(1)

    def __str__(self) -> str:
        if not self.first:
            return "any"
        last = self.numbers()[-1]
        return f"{self.first} to {last}" if last > self.first else str(self.first)


ANY_PORT = Ports()


def _why_not(host: str, port: int) -> str:
    """The reason why no socket can listen on an address and port; empty if the port is free."""
    try:
        addresses = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _protocol, _name, address = addresses[0]
        with socket.socket(family, kind) as probe:
            # As in gRPC: a port whose last connections have just closed is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return ""


class _Call(flight.ServerMiddleware):  # type: ignore[misc]  # pyarrow.flight has no types
    """The verified signature of a call, and the token that made it."""

    def __init__(self, signature: Signature, token: Token) -> None:
        super().__init__()
        self.signature = signature
        self.token = token

    def check(self, content: bytes) -> None:
        """Check that the signature is for this content."""
        if not self.signature.covers(content):
            raise flight.FlightUnauthenticatedError("the signature of the call is for another content")


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow.flight has no types
    def __init__(self, token: Token, readers: Token) -> None:
        super().__init__()
        self._token = token
        self._readers = readers
        self._refused = 0

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> _Call:
        signature = Signature.of(headers)
        token = self._readers if info.method == flight.FlightMethod.DO_GET else self._token
        if signature is not None and signature.name != token.name:
            token = token.derive(signature.name)
        if signature is None or not token.verifies(signature):
            self._refused += 1
            log.warning("call without the application's token refused", refused=self._refused, throttle_s=_THROTTLE_S)
            raise flight.FlightUnauthenticatedError("this endpoint takes calls with its application's token only")
        (theirs, *_) = headers.get(VERSION_HEADER, [__version__])
        if theirs != __version__:
            self._refused += 1
            log.error("call from another version refused", ours=__version__, theirs=theirs[:50], throttle_s=_THROTTLE_S)
            raise flight.FlightServerError(
                f"this endpoint runs Penstock {__version__}, its caller Penstock {theirs[:50]}: install the same "
                "version on the driver and all executors"
            )
        return _Call(signature, token)


class Endpoint(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow.flight has no types
    """Listens from construction until ``stop``; raises ``WireError`` if it cannot listen on ``host`` and a port.

    Handlers, by message class, run on the server's threads and return the reply, or ``None`` for ``Reply()``. Callers
    sign with ``token``, or one that is derived from it; ``permits`` says whether the caller of that name may send a
    message. Without ``open_stream`` the endpoint serves messages only; its callers sign with the token of ``readers``.
    """

    def __init__(
        self,
        host: str,
        token: Token,
        handlers: Mapping[type, Handler],
        open_stream: OpenStream | None = None,
        ports: Ports = ANY_PORT,
        *,
        permits: Callable[[str, Any], bool] = lambda _caller, _message: True,
        readers: Token | None = None,
    ) -> None:
        self._permits = permits
        self._handlers = {kind.__name__: (kind, handler) for kind, handler in handlers.items()}
        self._open_stream = open_stream
        # Only one thread decodes at a time. Hundreds of them would starve all other threads of the interpreter lock.
        self._decoding = threading.Lock()
        self._stopping = threading.Lock()
        # Authenticated calls without a valid message for this endpoint.
        self._refused_messages = 0
        # The constructor below starts to answer. Flight's ``serve`` is never called: it ends the server at the first
        # Ctrl-C, before receivers have deregistered.
        arguments = {"middleware": {_CALL: _TokenCheck(token, readers or token)}, **token.server_arguments()}
        reason = ""
        for port in ports.numbers():
            # The error of gRPC contains no reason.
            reason = _why_not(host, port)
            if reason:
                continue
            try:
                super().__init__(token.location(host, port), **arguments)
            except pa.ArrowException as error:
                reason = str(error)
                continue
            self._guard = ConnectionGuard(self.port)
            self._shutdown = EngineThread(f"shutdown of port {self.port}", self.shutdown)
            return
        raise WireError(f"cannot listen on {host}, port {ports}: {reason}. {ports.advice}".strip())

    def stop(self, timeout_s: float = 10.0) -> None:
        """Refuse new calls, wait ``timeout_s`` for those in progress, disconnect every peer. Idempotent."""
        deadline = time.monotonic() + timeout_s
        self._guard.stop()
        with self._stopping:
            if not self._shutdown.ident:
                self._shutdown.start()
        while not self._shutdown.finish(min(_DISCONNECT_S, max(deadline - time.monotonic(), 0))):
            if time.monotonic() >= deadline:
                log.warning("calls not ended in time, connections closed", timeout_s=timeout_s)
                self._guard.disconnect(callers=True)
                self._shutdown.finish(_DISCONNECT_S)
                return
            self._guard.disconnect()

    def do_action(self, context: Any, action: flight.Action) -> Iterator[flight.Result]:
        call: _Call = context.get_middleware(_CALL)
        body = action.body.to_pybytes()
        call.check(content_of(action.type, body))
        self._guard.note_caller(context.peer())
        kind, handler = self._handlers.get(action.type, (None, None))
        try:
            if kind is None or handler is None:
                raise WireError(f"this endpoint takes no {action.type[:100]!r} messages")
            if len(body) > _MAX_MESSAGE_BYTES:
                raise WireError(f"a message of {len(body)} bytes is larger than {_MAX_MESSAGE_BYTES} bytes")
            with self._decoding:
                message: object = from_json(kind, body)
            if not self._permits(call.signature.name, message):
                raise WireError(f"the token of {call.signature.name[:50]!r} does not permit this message")
        except WireError as error:
            self._refused_messages += 1
            counted = {"refused": self._refused_messages, "throttle_s": _THROTTLE_S}
            log.warning("message refused", action=action.type[:100], reason=str(error), **counted)
            raise flight.FlightServerError(str(error)) from None
        reply = to_json(handler(message) or Reply())
        yield flight.Result(call.token.answer_code(call.signature, reply) + reply)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        call: _Call = context.get_middleware(_CALL)
        call.check(content_of("", ticket.ticket))
        self._guard.note_caller(context.peer())
        try:
            if self._open_stream is None:
                raise WireError("this endpoint serves no streams")
            schema, batches = self._open_stream(ticket.ticket.decode("utf-8", "replace"))
        except StreamNotFoundError as error:
            raise flight.FlightServerError(str(error), call.token.answer_code(call.signature, NOT_FOUND)) from None
        except WireError as error:
            raise flight.FlightServerError(str(error)) from None
        code = call.token.answer_code(call.signature)
        return flight.GeneratorStream(schema, ((batch, code) for batch in batches))
