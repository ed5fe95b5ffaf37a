"""``PushServer``: a server of WebSockets and server-sent events in this process, for conformance checks and tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from aiohttp import web

from penstock_brokers import free_port

T = TypeVar("T")

_ANSWER_S = 20.0
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]
Send = Callable[[int, "bytes | str"], Awaitable[object]]


class PushServer:
    """Sends messages on every open connection: on ``/socket`` as a WebSocket, on ``/events`` as server-sent events.

    The id of an event is its number, from 1. A connection begins after its ``Last-Event-ID``, or, if it has none, with
    the first message that was never sent. Its event loop has a thread; the methods hand it their work and wait.

    Attributes:
        port: on the loopback interface.
        connections: number of connections so far.
        num_sent: number of messages that were sent.
        num_refused: number of requests that were answered with 204.
        headers: headers of the last request.
        token: bearer token that a request must carry; empty for none.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self.connections = 0
        self.num_sent = 0
        self.num_refused = 0
        self.headers: dict[str, str] = {}
        self.token = ""
        self._messages: list[bytes | str] = []
        self._is_paused = False
        self._is_ended = False
        self._runner: web.AppRunner | None = None
        self._changed = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="push server", daemon=True)
        self._thread.start()
        self.listen()

    def listen(self) -> None:
        """Accept connections, and send messages."""
        self._call(self._listen())

    def put(self, messages: Sequence[bytes | str]) -> None:
        """Append messages: bytes for binary messages of a WebSocket."""
        self._call(self._put(messages))

    def pause(self) -> None:
        """Send nothing until ``listen``."""
        self._call(self._pause())

    def cut(self) -> None:
        """End every connection, and refuse new ones until ``listen``."""
        self._call(self._cut())

    def end(self) -> None:
        """End every connection once all messages are sent. From then on, ``/events`` answers 204."""
        self._call(self._end())

    def close(self) -> None:
        """Stop everything."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ANSWER_S)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_ANSWER_S)

    # -- on the loop --

    async def _listen(self) -> None:
        self._is_paused = False
        self._notify()
        if self._runner is None:
            app = web.Application(middlewares=[self._authorized])
            app.add_routes([web.get("/socket", self._socket), web.get("/events", self._events)])
            self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
            await self._runner.setup()
            await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()

    @web.middleware
    async def _authorized(self, request: web.Request, handler: Handle) -> web.StreamResponse:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            raise web.HTTPUnauthorized
        return await handler(request)

    async def _put(self, messages: Sequence[bytes | str]) -> None:
        self._messages.extend(messages)
        self._notify()

    async def _pause(self) -> None:
        self._is_paused = True

    async def _cut(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _end(self) -> None:
        self._is_ended = True
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)

        async def send(_number: int, message: bytes | str) -> None:
            await (socket.send_bytes(message) if isinstance(message, bytes) else socket.send_str(message))

        sending = asyncio.create_task(self._send_all(request, send))
        sending.add_done_callback(lambda _: asyncio.ensure_future(socket.close()))
        try:
            async for message in socket:
                self.headers["subscribed"] = message.data
        finally:
            sending.cancel()
        return socket

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if self._is_ended:
            self.num_refused += 1
            return web.Response(status=204)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        await stream.write(b": welcome\nretry: 10\n\n")

        async def send(number: int, message: bytes | str) -> None:
            text = message if isinstance(message, bytes) else message.encode()
            data = b"".join(b"data: " + line + b"\n" for line in text.split(b"\n"))
            await stream.write(b"id: %d\n" % (number + 1) + data + b"\n")

        await self._send_all(request, send)
        return stream

    async def _send_all(self, request: web.Request, send: Send) -> None:
        self.connections += 1
        self.headers = dict(request.headers)
        last_id = request.headers.get("Last-Event-ID")
        number = self.num_sent if last_id is None else int(last_id)
        while True:
            while number < len(self._messages) and not self._is_paused:
                await send(number, self._messages[number])
                number += 1
                self.num_sent = max(self.num_sent, number)
            if self._is_ended and number == len(self._messages):
                return
            await self._changed.wait()
