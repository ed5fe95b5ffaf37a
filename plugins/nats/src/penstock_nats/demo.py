"""The demonstration ``penstock demo nats``: a server with a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nats.aio.client import Client

from penstock_nats.nats_server import NatsServer

_STREAM, _SUBJECT = "lines", "lines.all"


@contextmanager
def nats() -> Iterator[tuple[Mapping[str, Any], Callable[[Sequence[str]], None]]]:
    """Run the source; gives the options of the receiver, and a function that sends lines."""
    with NatsServer() as server, asyncio.Runner() as runner:
        client = Client()
        runner.run(client.connect(server.url))
        runner.run(client.jetstream().add_stream(name=_STREAM, subjects=[f"{_STREAM}.*"]))

        async def publish(lines: Sequence[str]) -> None:
            for line in lines:
                await client.publish(_SUBJECT, line.encode())
            await client.flush()

        try:
            options = {"servers": server.url, "stream": _STREAM, "consumer": "demo"}
            yield options, lambda lines: runner.run(publish(lines))
        finally:
            runner.run(client.close())
