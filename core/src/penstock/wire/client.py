"""The calling side of an endpoint.

Owns a connection and the patience with it: messages are idempotent, so a call that failed for want of a connection is
made again until its time is up. A call runs on the caller's thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from penstock.blocks.block import BlockReference
from penstock.errors import BlockGoneError, BlockUnreachableError, WireError
from penstock.runtime.backoff import Backoff
from penstock.wire.messages import BLOCK_GONE, from_json, to_json
from penstock.wire.token import Token

R = TypeVar("R")

# The longest a block may take: a host that vanished must not hold a batch for ever.
_FETCH_S = 300.0


class Client:
    """Send messages to one endpoint. Safe for use by several threads.

    Args:
        location: ``grpc://host:port``.
        token: to show.
        timeout_ms: how long one ``ask`` may take, retries included.
        retry: try again while the endpoint cannot be reached; without it, that is an error at once.
    """

    def __init__(self, location: str, token: Token, timeout_ms: int, *, retry: bool = True) -> None:
        self.location = location
        self._retry = retry
        self._headers = token.headers()
        self._timeout_s = timeout_ms / 1000
        self._client = flight.FlightClient(location, **token.client_arguments())
        # Closing it under a call would crash the process: the last of them closes it.
        self._calls, self._closed, self._lock = 0, False, threading.Lock()

    def ask(self, message: object, reply_kind: type[R]) -> R:
        """Send a message and return the reply.

        Raises:
            WireError: the endpoint cannot be reached within the time, or refuses the message, or ``close`` was called.
        """
        action = flight.Action(type(message).__name__, to_json(message))
        deadline = time.monotonic() + self._timeout_s
        backoff = Backoff(first_ms=20, longest_ms=1000)
        while True:
            left_s = max(deadline - time.monotonic(), 0.001)
            options = flight.FlightCallOptions(timeout=left_s, headers=self._headers)
            try:
                with self._call():
                    (result,) = self._client.do_action(action, options)
                return from_json(reply_kind, result.body.to_pybytes())
            except (flight.FlightUnavailableError, flight.FlightTimedOutError) as error:
                pause_s = backoff.next_ms() / 1000
                if not self._retry or time.monotonic() + pause_s >= deadline:
                    raise WireError(f"no answer from {self.location} to {action.type}: {_first_line(error)}") from None
                time.sleep(pause_s)
            except (pa.ArrowException, flight.FlightError) as error:
                raise WireError(f"{self.location} refused {action.type}: {_first_line(error)}") from None

    def close(self) -> None:
        """Give the connection up, behind the calls at hand; returns at once. Harmless when repeated."""
        with self._lock:
            self._closed, closed = True, self._closed
            is_idle = not self._calls
        if is_idle and not closed:
            self._client.close()

    @contextmanager
    def _call(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise WireError(f"the connection to {self.location} was given up")
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1
                is_last = self._closed and not self._calls
            if is_last:
                self._client.close()


def fetch_block(reference: BlockReference, source: str, token: Token) -> Iterator[pa.RecordBatch]:
    """Yield a block's record batches from an endpoint on the host that stored it.

    Raises:
        BlockGoneError: the endpoint does not have it.
        BlockUnreachableError: the endpoint does not answer, or is another application's now.
    """
    what = f"block {reference.block_id} ({reference.num_records} records) cannot be fetched from {source}"
    try:
        with flight.FlightClient(source, **token.client_arguments()) as client:
            options = flight.FlightCallOptions(timeout=_FETCH_S, headers=token.headers())
            for chunk in client.do_get(flight.Ticket(reference.block_id.encode()), options):
                yield chunk.data
    except (pa.ArrowException, flight.FlightError) as error:
        is_gone = getattr(error, "extra_info", None) == BLOCK_GONE
        kind = BlockGoneError if is_gone else BlockUnreachableError
        raise kind(f"{what}: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
