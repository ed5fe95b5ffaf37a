"""The authenticated Arrow Flight endpoint of a process, the driver's or a receiver's.

Owns the listening port, from when it is made until ``stop``. Actions carry messages, DoGet carries blocks. A call
without the application's token, or from another version of Penstock, is refused before anything of it is parsed, a
message of another shape before anything is done; refusals are counted and logged. What is no HTTP/2 at all, gRPC drops
before it reaches anything here. Handlers run on the server's own threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from penstock.errors import BlockGoneError, WireError
from penstock.runtime.log import get_logger
from penstock.version import __version__
from penstock.wire.messages import BLOCK_GONE, from_json, to_json
from penstock.wire.token import VERSION_HEADER, Token

log = get_logger("wire")

Handler = Callable[[Any], object]


class _Doorkeeper(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow.flight has no types
    def __init__(self, token: Token) -> None:
        super().__init__()
        self._token = token
        self.refused = 0

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        if not self._token.is_shown_by(headers):
            self.refused += 1
            log.warning("call refused: it does not show this application's token", refused=self.refused)
            raise flight.FlightUnauthenticatedError("this endpoint takes calls with its application's token only")
        (theirs, *_) = headers.get(VERSION_HEADER, [__version__])
        if theirs != __version__:
            self.refused += 1
            message = (
                f"this endpoint runs Penstock {__version__}, its caller Penstock {theirs[:50]}: the driver and all "
                "executors need the same version"
            )
            log.error("call refused: it comes from another version", ours=__version__, theirs=theirs[:50])
            raise flight.FlightServerError(message)


class Endpoint(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow.flight has no types
    """Serve messages and blocks.

    Args:
        host: the address to listen on; the port is chosen by the system.
        token: what callers must show, and the certificates if the connection is to be private.
        handlers: message class → what handles it and returns the reply.
        open_block: finds a block by its id; ``None`` where there are no blocks.
    """

    def __init__(
        self,
        host: str,
        token: Token,
        handlers: Mapping[type, Handler],
        open_block: Callable[[str], pa.ipc.RecordBatchFileReader] | None = None,
    ) -> None:
        self._doorkeeper = _Doorkeeper(token)
        self._handlers = {kind.__name__: (kind, handler) for kind, handler in handlers.items()}
        self._open_block = open_block
        self._refused_messages = 0
        # From here on it answers. Flight's own ``serve`` is never called: it ends the server at the first Ctrl-C, when
        # the receivers have the end of their data still to report.
        super().__init__(token.location(host, 0), middleware={"token": self._doorkeeper}, **token.server_arguments())

    @property
    def refused_calls(self) -> int:
        """How many calls did not show the token, or came from another version."""
        return self._doorkeeper.refused

    @property
    def refused_messages(self) -> int:
        """How many calls showed the token, and were no message that is taken here."""
        return self._refused_messages

    def stop(self) -> None:
        """Refuse new calls, finish those at hand, free the port."""
        self.shutdown()

    def do_action(self, context: Any, action: flight.Action) -> Iterator[flight.Result]:
        """Handle one message."""
        kind, handler = self._handlers.get(action.type, (None, None))
        try:
            if kind is None or handler is None:
                raise WireError(f"this endpoint takes no {action.type[:100]!r} messages")
            message: object = from_json(kind, action.body.to_pybytes())
        except WireError as error:
            self._refused_messages += 1
            log.warning("message refused", action=action.type[:100], error=str(error), refused=self._refused_messages)
            raise flight.FlightServerError(str(error)) from None
        yield flight.Result(to_json(handler(message)))

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Serve one block, straight from its file."""
        if self._open_block is None:
            raise flight.FlightServerError("this endpoint has no blocks")
        try:
            reader = self._open_block(ticket.ticket.decode("utf-8", "replace"))
        except BlockGoneError as error:
            raise flight.FlightServerError(str(error), BLOCK_GONE) from None
        batches = map(reader.get_batch, range(reader.num_record_batches))
        return flight.GeneratorStream(reader.schema, batches)
