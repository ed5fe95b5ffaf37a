"""The demonstration of ``penstock demo redis``: a server, and a producer of lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from penstock_brokers import LineProducer
from penstock_redis.server import RedisServer

_STREAM = "lines"
# The producer must not fill the machine's memory while nobody reads.
_LONGEST = 1_000_000


@contextmanager
def redis(rate: float, seed: int | None) -> Iterator[Mapping[str, Any]]:
    """Run a server and append lines to a stream of it.

    Args:
        rate: lines per second.
        seed: the same seed gives the same lines.

    Yields:
        The options of the receiver.
    """
    with RedisServer() as server, server.client() as client:

        def send(lines: Sequence[str]) -> None:
            with client.pipeline(transaction=False) as pipeline:
                for line in lines:
                    pipeline.xadd(_STREAM, {"value": line}, maxlen=_LONGEST)
                pipeline.execute()

        with LineProducer(send, rate, seed):
            yield {
                "host": "127.0.0.1",
                "port": server.port,
                "streams": _STREAM,
                "columns": ("value",),
                "value_as": "text",
            }
