"""The demonstration ``penstock demo nats``: a server, a stream, and a producer that publishes lines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nats.aio.client import Client

from penstock_brokers import LineProducer
from penstock_nats.nats_server import NatsServer

_STREAM, _SUBJECT = "lines", "lines.all"


@contextmanager
def nats(rate: float, seed: int | None) -> Iterator[Mapping[str, Any]]:
    """Run the source; gives the options of the receiver."""
    with NatsServer() as server, asyncio.Runner() as runner:
        client = Client()
        runner.run(client.connect(server.url))
        runner.run(client.jetstream().add_stream(name=_STREAM, subjects=[f"{_STREAM}.*"]))

        async def publish(lines: Sequence[str]) -> None:
            for line in lines:
                await client.publish(_SUBJECT, line.encode())
            await client.flush()

        try:
            with LineProducer(lambda lines: runner.run(publish(lines)), rate, seed):
                yield {"servers": server.url, "stream": _STREAM, "consumer": "demo"}
        finally:
            runner.run(client.close())
