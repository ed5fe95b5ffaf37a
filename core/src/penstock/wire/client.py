"""The client of an endpoint. It retries unreachable calls until a timeout, because messages are idempotent."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterator
from hmac import compare_digest
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.flight as flight

from penstock.errors import WireError
from penstock.runtime.retry import Backoff, retry
from penstock.runtime.tracebacks import first_line
from penstock.wire.json_codec import NOT_FOUND, StreamNotFoundError, from_json, to_json
from penstock.wire.token import CODE_BYTES, Token, content_of

R = TypeVar("R")

# Without TLS, another process may listen on the port of an endpoint that has ended.
_NOT_OURS = "does not have the application's token: another program listens there"
_NOT_REACHED = (flight.FlightUnavailableError, flight.FlightTimedOutError)


class Client:
    """Sends messages to one endpoint, ``grpc://host:port``. Thread-safe.

    ``timeout_ms`` limits one ``ask`` with its retries; ``advice`` ends the error when the endpoint cannot be reached.
    """

    def __init__(self, location: str, token: Token, timeout_ms: int, *, retry: bool = True, advice: str = "") -> None:
        self.location = location
        self._advice = advice
        self._retry = retry
        self._token = token
        self._timeout_ms = timeout_ms
        # None once closed. Closing the connection during a call would crash the process. Every call holds a reference,
        # and the connection closes with its last reference.
        self._client: Any = flight.FlightClient(location, **token.client_arguments())

    def ask(self, message: object, reply_kind: type[R]) -> R:
        """Send a message and return the reply; raises ``WireError`` without one, on a refusal, and once closed."""
        name, body = type(message).__name__, to_json(message)
        deadline = time.monotonic() + self._timeout_ms / 1000

        def attempt() -> R:
            left_s = max(deadline - time.monotonic(), 0.001)
            signature = self._token.sign(content_of(name, body))
            options = flight.FlightCallOptions(timeout=left_s, headers=signature.headers())
            client = self._client
            if client is None:
                raise WireError(f"the connection to {self.location} is closed")
            (result,) = client.do_action(flight.Action(name, body), options)
            answer = result.body.to_pybytes()
            code, reply = answer[:CODE_BYTES], answer[CODE_BYTES:]
            if not compare_digest(code, self._token.answer_code(signature, reply)):
                raise WireError(f"{self.location} answered {name} and {_NOT_OURS}")
            return from_json(reply_kind, reply)

        try:
            return retry(
                attempt,
                Backoff(first_ms=20, longest_ms=1000),
                retries=math.inf if self._retry else 0,
                timeout_ms=self._timeout_ms,
                retry_if=lambda error: isinstance(error, _NOT_REACHED),
            )
        except _NOT_REACHED as error:
            reason = f"no answer from {self.location} to {name}: {first_line(error)}"
            raise WireError(_with_advice(reason, self._advice)) from None
        except (pa.ArrowException, flight.FlightError) as error:
            raise WireError(f"{self.location} refused {name}: {first_line(error)}") from None

    def close(self) -> None:
        """Close the connection after the calls in progress; returns at once. Idempotent."""
        self._client = None


def fetch(location: str, ticket: str, token: Token, timeout_s: float, *, advice: str = "") -> Iterator[pa.RecordBatch]:
    """Yield the record batches of the stream that ``ticket`` names, each within ``timeout_s``.

    Raises ``StreamNotFoundError`` if the endpoint does not have the stream, ``WireError`` for any other failure.
    """
    signature = token.sign(content_of("", ticket.encode()))
    code, absent = token.answer_code(signature), token.answer_code(signature, NOT_FOUND)
    # Read on a thread, because a call's timeout would include the time in which the caller processes the batches.
    batches: SimpleQueue[pa.RecordBatch | BaseException | None] = SimpleQueue()
    wanted: SimpleQueue[bool] = SimpleQueue()

    def pull() -> None:
        try:
            with flight.FlightClient(location, **token.client_arguments()) as client:
                options = flight.FlightCallOptions(headers=signature.headers())
                for chunk in client.do_get(flight.Ticket(ticket.encode()), options):
                    if chunk.app_metadata is None or not compare_digest(chunk.app_metadata.to_pybytes(), code):
                        raise WireError(f"{location} sent a stream and {_NOT_OURS}")
                    batches.put(chunk.data)
                    if not wanted.get():
                        return
            batches.put(None)
        except BaseException as error:
            batches.put(error)

    # A plain thread: tasks fetch, and must not import the log.
    threading.Thread(target=pull, name="fetch", daemon=True).start()
    try:
        while (batch := batches.get(timeout=timeout_s)) is not None:
            if isinstance(batch, BaseException):
                raise batch
            wanted.put(True)
            yield batch
    except Empty:
        raise WireError(_with_advice(f"nothing from {location} within {timeout_s:g} s", advice)) from None
    except (pa.ArrowException, flight.FlightError) as error:
        kind = StreamNotFoundError if getattr(error, "extra_info", None) == absent else WireError
        raise kind(_with_advice(first_line(error), advice if isinstance(error, _NOT_REACHED) else "")) from None
    finally:
        wanted.put(False)


def address_towards(location: str, advice: str = "") -> str:
    """This host's address towards an endpoint: loopback if the endpoint is on this machine."""
    parts = urlsplit(location)
    reason = OSError("no address")
    try:
        addresses = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)
    except socket.gaierror as error:
        unknown = f"the name {parts.hostname!r} has no address on {socket.gethostname()}: {error.strerror}"
        raise WireError(_with_advice(unknown, advice)) from None
    # A name may have addresses of a family that this host has no route for.
    for family, kind, _protocol, _name, address in addresses:
        try:
            with socket.socket(family, kind) as probe:
                # Sends nothing: connecting a datagram socket only selects the route.
                probe.connect(address)
                return str(probe.getsockname()[0])
        except OSError as error:
            reason = error
    raise WireError(_with_advice(f"no route to {location}: {reason.strerror or reason}", advice))


def _with_advice(reason: str, advice: str) -> str:
    return f"{reason}. {advice}" if advice else reason
