"""The demonstration ``penstock demo redis``: a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from penstock_redis.server import RedisServer

_STREAM = "lines"
# The producer must not fill the machine's memory while nobody reads.
_LONGEST = 1_000_000


@contextmanager
def redis() -> Iterator[tuple[Mapping[str, Any], Callable[[Sequence[str]], None]]]:
    """Run a server; gives the options of the receiver, and a function that sends lines."""
    with RedisServer() as server, server.client() as client:

        def send(lines: Sequence[str]) -> None:
            with client.pipeline(transaction=False) as pipeline:
                for line in lines:
                    pipeline.xadd(_STREAM, {"value": line}, maxlen=_LONGEST)
                pipeline.execute()

        options = {
            "host": "127.0.0.1",
            "port": server.port,
            "streams": _STREAM,
            "columns": ("value",),
            "value_as": "text",
        }
        yield options, send
