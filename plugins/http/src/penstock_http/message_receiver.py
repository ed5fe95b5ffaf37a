"""``MessageReceiver``: base of the receivers that connect to a server and store the messages that it pushes.

One task reads into a bounded buffer, another one stores from it about once per block interval.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from aiohttp import ClientSession, ClientTimeout, TCPConnector

from penstock import AsyncReceiver, PenstockError, SourceStatus
from penstock.spi import ErrorCounts, get_logger, summary_of, text_of
from penstock_brokers import ColumnReader, decode, readable
from penstock_http.client_sockets import ClientSockets
from penstock_http.message_buffer import Message, MessageBuffer
from penstock_http.options import SseOptions, WebSocketOptions

log = get_logger("http")

# The most messages of one store.
_MANY_MESSAGES = 5_000
_REPORT_INTERVAL_S = 1.0
_UNAUTHORIZED = frozenset({401, 403})
_UTC_US = pa.timestamp("us", "UTC")


class MessageReceiver(AsyncReceiver[Any]):
    """Stores the messages of one connection after the other.

    Args:
        options: columns, form of the messages, and how to connect.
    """

    def __init__(self, options: WebSocketOptions | SseOptions) -> None:
        self._connection_options = options

    @abstractmethod
    async def read(self, session: ClientSession, buffer: MessageBuffer) -> None:
        """Connect, and put messages into the buffer until the source ends."""

    def position_after(self, message: Message) -> dict[str, Any]:
        """Metadata of a block that ends with this message."""
        return {}

    async def receive(self) -> None:
        options = self._connection_options
        self._table_of = column_reader(options)
        self._dropped = ErrorCounts()
        buffer = MessageBuffer()
        timeout = ClientTimeout(total=None, sock_connect=options.connect_timeout, sock_read=options.idle_timeout)
        sockets = ClientSockets()
        connector = TCPConnector(ssl=options.ssl_context(), socket_factory=sockets.create)
        storing = asyncio.create_task(self._keep_storing(buffer))
        reporting = asyncio.create_task(self._keep_reporting(buffer))
        try:
            async with ClientSession(connector=connector, timeout=timeout, headers=options.headers()) as session:
                reading = asyncio.create_task(self.read(session, buffer))
                try:
                    await asyncio.wait({storing, reading}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await _cancelled(reading)
            # Messages that came before the end of a connection are stored, also if the end is an error.
            buffer.close()
            await storing
            if not reading.cancelled():
                reading.result()
        finally:
            await sockets.close()
            await _cancelled(reporting)
            await _cancelled(storing)
            self._store_rest(buffer)

    async def _keep_storing(self, buffer: MessageBuffer) -> None:
        while messages := await buffer.take(self.fetch_hint(_MANY_MESSAGES)):
            began_s = time.monotonic()
            tables, undecodable = readable(messages, self._table_of)
            if tables:
                await self.astore_arrow(pa.concat_tables(tables), self._positions(messages, undecodable))
            if self.isStopped():
                return
            for error in undecodable.values():
                self.count_dropped(f"messages that cannot be decoded ({summary_of(error)})", 1)
            await buffer.urgent_within(began_s + self.block_interval_ms / 1000 - time.monotonic())

    def _positions(
        self, messages: Sequence[Message], undecodable: Mapping[int, ValueError]
    ) -> Callable[[int], dict[str, Any]]:
        stored = [message for number, message in enumerate(messages) if number not in undecodable]
        return lambda rows: self.position_after(stored[rows - 1])

    def _store_rest(self, buffer: MessageBuffer) -> None:
        """At a stop, store what was read, because the server may not send it again. The rate limit may refuse it."""
        rest = buffer.take_rest()
        tables, undecodable = readable(rest, self._table_of)
        if tables:
            try:
                self.store_arrow(pa.concat_tables(tables), self._positions(rest, undecodable))
            except PenstockError as error:
                log.info("messages lost at stop", stream_id=self.streamId, at_most=len(rest), reason=text_of(error))

    async def _keep_reporting(self, buffer: MessageBuffer) -> None:
        while True:
            await asyncio.sleep(_REPORT_INTERVAL_S)
            self.report_source(SourceStatus(lag_messages=len(buffer)))
            self._report_dropped()

    def count_dropped(self, reason: str, count: int) -> None:
        """Count messages that are not stored, for reports at most once per second."""
        self._dropped.add(f"dropped {reason}", count)
        self._report_dropped()

    def _report_dropped(self) -> None:
        now_s = time.monotonic()
        if self._dropped.due_s(now_s) == 0:
            self.reportError(self._dropped.report(now_s))


def refusal(url: str, status: int, answer: str, wanted: str) -> ConnectionError:
    """The error for a server that refuses the connection.

    Args:
        url: of the server.
        status: of HTTP.
        answer: what the server has answered.
        wanted: what it answers to a client that it accepts.
    """
    advice = ": check the option token" if status in _UNAUTHORIZED else ""
    return ConnectionError(f"{url} answered {answer}, and not {wanted}{advice}")


def column_reader(options: WebSocketOptions | SseOptions) -> ColumnReader[Message]:
    """Makes the columns of messages."""
    return ColumnReader(
        options.columns,
        {
            "value": lambda messages: decode([message.value for message in messages], options.value_as),
            "event": lambda messages: pa.array([message.event for message in messages], pa.string()),
            "id": lambda messages: pa.array([message.id for message in messages], pa.string()),
            "timestamp": lambda messages: pa.array([message.arrived_us for message in messages], _UTC_US),
        },
    )


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task unless it has ended, and wait for its end."""
    task.cancel()
    await asyncio.wait({task})
