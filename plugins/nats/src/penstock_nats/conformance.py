"""Conformance suite of the receiver ``nats``, for ``penstock plugins check nats``: it starts a server of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo
from nats.js.errors import NotFoundError

from penstock_nats.nats_server import NatsServer
from penstock_testing import Capabilities, Feeder, ReceiverSuite

T = TypeVar("T")

_STREAM, _SUBJECT, _CONSUMER = "records", "records.all", "checked"


class StreamFeeder(Feeder):
    """Publishes to a stream of a server of its own."""

    def __init__(self) -> None:
        self._server = NatsServer()
        self._server.start()
        self._records: list[Any] = []
        self._waiting: list[Any] = []
        self._is_cut = False
        self._asked(lambda js: js.add_stream(name=_STREAM, subjects=[f"{_STREAM}.*"]))

    def options(self) -> Mapping[str, Any]:
        return {"servers": self._server.url, "stream": _STREAM, "consumer": _CONSUMER}

    def put(self, records: Sequence[Any]) -> None:
        if self._is_cut:
            self._waiting += records
            return

        async def publish(js: JetStreamContext) -> None:
            for record in records:
                await js.publish(_SUBJECT, record.encode())

        self._asked(publish)
        self._records += records

    def put_bad(self) -> None:
        self._asked(lambda js: js.publish(_SUBJECT, b"\xff\xfe"))
        self._records.append(None)

    def cut(self) -> None:
        self._is_cut = True
        self._server.kill()

    def heal(self) -> None:
        if self._is_cut:
            self._server.start()
            self._is_cut = False
            waiting, self._waiting = self._waiting, []
            self.put(waiting)

    def acknowledged(self) -> list[Any]:
        info = self._consumer()
        # Without gaps: those that are acknowledged later than others count later.
        return [] if info is None or info.ack_floor is None else self._records[: info.ack_floor.stream_seq]

    def taken(self) -> int:
        info = self._consumer()
        return 0 if info is None or info.delivered is None else info.delivered.stream_seq

    def close(self) -> None:
        self._server.close()

    def _consumer(self) -> ConsumerInfo | None:
        if self._is_cut:
            return None
        try:
            info: ConsumerInfo = self._asked(lambda js: js.consumer_info(_STREAM, _CONSUMER))
            return info
        except NotFoundError:
            return None

    def _asked(self, ask: Callable[[JetStreamContext], Awaitable[T]]) -> T:
        """Ask the server, through a connection of its own: a feeder is called on any thread."""

        async def run() -> T:
            client = Client()
            await client.connect(self._server.url, allow_reconnect=False)
            try:
                return await ask(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(run())


class NatsSuite(ReceiverSuite):
    """The receiver ``nats``."""

    name = "nats"
    feeder = StreamFeeder
    options: ClassVar = {"ack_wait": 2.0, "retry_delay": 0.5}
    capabilities = Capabilities(ordered=True, acknowledged=True, arrow=True)
