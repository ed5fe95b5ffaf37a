"""Conformance suite of the receiver ``nats``, for ``penstock plugins check nats``: it starts a server of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, TypeVar

from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo, RawStreamMsg
from nats.js.errors import NotFoundError

from penstock_nats.nats_server import NatsServer
from penstock_testing import Capabilities, DeadLetter, Feeder, Message, ReceiverSuite

T = TypeVar("T")

_STREAM, _SUBJECT, _CONSUMER, _DEAD = "records", "records.all", "checked", "dead"
_LEASE_S = 2.0


class StreamFeeder(Feeder):
    """Publishes to a stream of a server of its own."""

    lease_s = _LEASE_S
    rebalances = True
    lacks: ClassVar = {"refused_acknowledgements": "an acknowledgement names a message, on any connection"}

    def __init__(self) -> None:
        self._server = NatsServer()
        self._server.start()
        self._records: list[Any] = []
        self._waiting: list[Any] = []
        self._is_up = True
        # The last known one: a server that is away changes nothing.
        self._last_info: ConsumerInfo | None = None
        for name in (_STREAM, _DEAD):
            self._asked(partial(JetStreamContext.add_stream, name=name, subjects=[f"{name}.*"]))

    def options(self) -> Mapping[str, Any]:
        return {"servers": self._server.url, "stream": _STREAM, "consumer": _CONSUMER}

    def put(self, records: Sequence[Any]) -> None:
        if not self._is_up:
            self._waiting += records
            return

        async def publish(js: JetStreamContext) -> None:
            for record in records:
                await js.publish(_SUBJECT, record.encode())

        self._asked(publish)
        self._records += records

    def put_bad(self) -> Message:
        bad = Message(b"\xff\xfe", {"kind": "bad"})
        self._asked(lambda js: js.publish(_SUBJECT, bad.value, headers=dict(bad.headers)))
        self._records.append(None)
        return bad

    def oversize(self) -> tuple[Any, str]:
        # The server's limit.
        return "x" * 1_048_576, "stored"

    def pause(self) -> None:
        self._consumer()
        self._is_up = False
        self._server.suspend()

    def cut(self) -> None:
        self._consumer()
        self._is_up = False
        # Not killed: the server writes acknowledgements to the disk some time after it has confirmed them.
        self._server.stop()

    def heal(self) -> None:
        self._server.start()
        self._server.resume()
        self._is_up = True
        waiting, self._waiting = self._waiting, []
        self.put(waiting)

    def acknowledged(self) -> list[Any]:
        info = self._consumer()
        # Without gaps: those that are acknowledged later than others count later.
        return [] if info is None or info.ack_floor is None else self._records[: info.ack_floor.stream_seq]

    def taken(self) -> int:
        info = self._consumer()
        return 0 if info is None or info.delivered is None else info.delivered.stream_seq

    def in_flight(self) -> int:
        info = self._consumer()
        return 0 if info is None else info.num_ack_pending or 0

    def dead_letters(self) -> list[DeadLetter]:
        async def read(js: JetStreamContext) -> list[DeadLetter]:
            count = (await js.stream_info(_DEAD)).state.messages
            return [_dead_letter(await js.get_msg(_DEAD, number)) for number in range(1, count + 1)]

        return self._asked(read)

    def close(self) -> None:
        self._server.close()

    def _consumer(self) -> ConsumerInfo | None:
        if self._is_up:
            with suppress(NotFoundError):
                self._last_info = self._asked(lambda js: js.consumer_info(_STREAM, _CONSUMER))
        return self._last_info

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


def _dead_letter(message: RawStreamMsg) -> DeadLetter:
    headers = message.headers or {}
    deliveries = int(headers["penstock-deliveries"])
    return DeadLetter(Message(message.data or b"", headers), headers["penstock-error"], deliveries)


class NatsSuite(ReceiverSuite):
    """The receiver ``nats``."""

    name = "nats"
    feeder = StreamFeeder
    options: ClassVar = {"ack_wait": _LEASE_S, "dead_letter": f"{_DEAD}.all"}
    capabilities = Capabilities(ordered=True, acknowledged=True, arrow=True)
