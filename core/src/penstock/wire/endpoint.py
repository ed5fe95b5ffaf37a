"""The authenticated Arrow Flight endpoint of a process, the driver's or a receiver's.

Owns the listening port, from when it is made until ``stop``. Actions carry messages, DoGet carries blocks. A call
without the application's token is refused before anything of it is parsed; refusals are counted and logged. Handlers
run on the server's own threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from penstock.errors import BlockGoneError, WireError
from penstock.log import get_logger
from penstock.wire.messages import BLOCK_GONE, from_json, to_json
from penstock.wire.token import Token

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
        # From here on it answers. Flight's own ``serve`` is never called: it ends the server at the first Ctrl-C, when
        # the receivers have the end of their data still to report.
        super().__init__(token.location(host, 0), middleware={"token": self._doorkeeper}, **token.server_arguments())

    @property
    def refused_calls(self) -> int:
        """How many calls did not show the token."""
        return self._doorkeeper.refused

    def stop(self) -> None:
        """Refuse new calls, finish those at hand, free the port."""
        self.shutdown()

    def do_action(self, context: Any, action: flight.Action) -> Iterator[flight.Result]:
        """Handle one message."""
        kind, handler = self._handlers.get(action.type, (None, None))
        if kind is None or handler is None:
            raise flight.FlightServerError(f"this endpoint takes no {action.type!r} messages")
        try:
            message: object = from_json(kind, action.body.to_pybytes())
        except WireError as error:
            log.warning("message refused", action=action.type, error=str(error))
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
