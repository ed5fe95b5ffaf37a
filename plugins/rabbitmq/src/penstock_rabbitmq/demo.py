"""The demonstration ``penstock demo rabbitmq``: a broker with a queue."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock_rabbitmq.queue_publisher import QueuePublisher
from penstock_rabbitmq.rabbit_server import RabbitServer

_QUEUE = "lines"


@contextlib.contextmanager
def demo() -> Iterator[tuple[Mapping[str, Any], Callable[[Sequence[str]], None]]]:
    """Run a broker, which starts in some seconds; gives the receiver's options, and a function that sends lines."""
    with RabbitServer() as server, QueuePublisher(server.port) as publisher:
        publisher.declare(_QUEUE)

        def send(lines: Sequence[str]) -> None:
            publisher.publish(_QUEUE, [line.encode() for line in lines])

        options = {
            "queue": _QUEUE,
            "host": "127.0.0.1",
            "port": server.port,
            "value_as": "text",
            "columns": "value",
        }
        yield options, send
