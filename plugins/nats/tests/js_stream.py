"""A stream of a NATS server, for tests that are no coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo, RawStreamMsg
from nats.js.errors import NotFoundError

from penstock import Receiver
from penstock.spi import structure_options
from penstock_nats import NatsOptions
from penstock_nats.nats_receiver import NatsReceiver
from penstock_nats.nats_server import NatsServer

T = TypeVar("T")


class JsStream:
    """A stream with all subjects below its name. Each call uses a connection of its own."""

    def __init__(self, server: NatsServer, name: str, *, exists: bool = False) -> None:
        self.server = server
        self.name = name
        if not exists:
            self.create()

    def create(self) -> None:
        self.ask(lambda js: js.add_stream(name=self.name, subjects=[f"{self.name}.>"]))

    def ask(self, ask: Callable[[JetStreamContext], Awaitable[T]]) -> T:
        async def run() -> T:
            client = Client()
            await client.connect(self.server.url, allow_reconnect=False)
            try:
                return await ask(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(run())

    def publish(self, *bodies: bytes | str, subject: str = "a", headers: Mapping[str, str] | None = None) -> None:
        async def publish(js: JetStreamContext) -> None:
            for body in bodies:
                data = body.encode() if isinstance(body, str) else body
                await js.publish(f"{self.name}.{subject}", data, headers=None if headers is None else dict(headers))

        self.ask(publish)

    def consumer(self, name: str = "c") -> ConsumerInfo:
        info: ConsumerInfo = self.ask(lambda js: js.consumer_info(self.name, name))
        return info

    def is_acknowledged(self, sequence: int) -> bool:
        """Whether all messages up to this one are acknowledged."""
        if not self.has_consumer():
            return False
        floor = self.consumer().ack_floor
        return floor is not None and floor.stream_seq >= sequence

    def has_consumer(self, name: str = "c") -> bool:
        try:
            self.consumer(name)
        except NotFoundError:
            return False
        return True

    def message(self, sequence: int) -> RawStreamMsg:
        message: RawStreamMsg = self.ask(lambda js: js.get_msg(self.name, sequence))
        return message

    def options(self, **values: Any) -> NatsOptions:
        given = {"servers": self.server.url, "stream": self.name, "consumer": "c"} | values
        return structure_options("receiver 'nats'", NatsOptions, given)

    def receiver(self, **values: Any) -> Receiver[Any]:
        return NatsReceiver(self.options(**values))
