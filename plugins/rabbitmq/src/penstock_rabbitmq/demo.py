"""The demonstration ``penstock demo rabbitmq``: a broker, and a client that publishes lines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock_brokers import LineProducer
from penstock_rabbitmq.queue_publisher import QueuePublisher
from penstock_rabbitmq.rabbit_server import RabbitServer

_QUEUE = "lines"


@contextlib.contextmanager
def demo(rate: float, seed: int | None = None) -> Iterator[Mapping[str, Any]]:
    """Start a broker, which takes some seconds, and a client that publishes lines; give the receiver's options."""
    with RabbitServer() as server, QueuePublisher(server.port) as publisher:
        publisher.declare(_QUEUE)

        def send(lines: Sequence[str]) -> None:
            publisher.publish(_QUEUE, [line.encode() for line in lines])

        with LineProducer(send, rate, seed):
            yield {
                "queue": _QUEUE,
                "host": "127.0.0.1",
                "port": server.port,
                "value_as": "text",
                "columns": "value",
            }
