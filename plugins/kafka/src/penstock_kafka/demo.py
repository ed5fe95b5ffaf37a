"""The demonstration ``penstock demo kafka``: a mock cluster with a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from penstock_kafka.server import KafkaMockServer

_TOPIC = "lines"
_PUBLISH_S = 10.0


@contextmanager
def kafka() -> Iterator[tuple[Mapping[str, Any], Callable[[Sequence[str]], None]]]:
    """Run the source; gives the options of the receiver, and a function that sends lines."""
    with KafkaMockServer() as server:
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
        producer.list_topics(_TOPIC, timeout=_PUBLISH_S)

        def send(lines: Sequence[str]) -> None:
            for line in lines:
                producer.produce(_TOPIC, line.encode())
            producer.flush(_PUBLISH_S)

        yield {"bootstrap_servers": server.bootstrap_servers, "topics": (_TOPIC,), "group_id": "demo"}, send
