"""``WebSocketReceiver``: reads the messages of a WebSocket."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, WSServerHandshakeError

from penstock_http.message_buffer import Message, MessageBuffer
from penstock_http.message_receiver import MessageReceiver, refusal
from penstock_http.options import WebSocketOptions

# The number of pings in the time after which a silent server is given up.
_PINGS = 3


class WebSocketReceiver(MessageReceiver):
    """Receives text and binary messages.

    Args:
        options: address of the server, and what to store.
    """

    def __init__(self, options: WebSocketOptions) -> None:
        super().__init__(options)
        self._options = options

    async def read(self, session: ClientSession, buffer: MessageBuffer) -> None:
        options = self._options
        try:
            socket = await session.ws_connect(options.url, max_msg_size=options.max_message_bytes)
        except WSServerHandshakeError as error:
            raise refusal(options.url, error.status, str(error.status), "101") from error
        async with socket:
            if options.subscribe:
                await socket.send_str(options.subscribe)
            pinging = asyncio.create_task(self._keep_pinging(socket))
            try:
                await self._read_all(socket, buffer)
            finally:
                pinging.cancel()

    async def _read_all(self, socket: ClientWebSocketResponse, buffer: MessageBuffer) -> None:
        while True:
            try:
                message = await socket.receive(self._options.idle_timeout)
            except TimeoutError:
                raise TimeoutError(
                    f"{self._options.url} sent nothing for {self._options.idle_timeout:g} s, and answered no ping"
                ) from None
            match message.type:
                case WSMsgType.TEXT:
                    await buffer.put(Message(message.data.encode(), time.time_ns() // 1000))
                case WSMsgType.BINARY:
                    await buffer.put(Message(message.data, time.time_ns() // 1000))
                case WSMsgType.ERROR:
                    raise ConnectionError(f"{self._options.url}: {message.data}")
                case _:
                    reason = f" ({socket.close_code} {message.extra or ''})".replace(" )", ")")
                    raise ConnectionError(f"{self._options.url} closed the connection{reason}")

    async def _keep_pinging(self, socket: ClientWebSocketResponse) -> None:
        """The answers show that a server without messages is there."""
        with suppress(ConnectionError):
            while not socket.closed:
                await asyncio.sleep(self._options.idle_timeout / _PINGS)
                await socket.ping()
