"""The demonstration ``penstock demo kafka``: a mock cluster, a topic, and a producer of lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from penstock_brokers import LineProducer
from penstock_kafka.server import KafkaMockServer

_TOPIC = "lines"
_PUBLISH_S = 10.0


@contextmanager
def kafka(rate: float, seed: int | None) -> Iterator[Mapping[str, Any]]:
    """Run the source; gives the options of the receiver."""
    with KafkaMockServer() as server:
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
        producer.list_topics(_TOPIC, timeout=_PUBLISH_S)

        def send(lines: Sequence[str]) -> None:
            for line in lines:
                producer.produce(_TOPIC, line.encode())
            producer.flush(_PUBLISH_S)

        with LineProducer(send, rate, seed):
            yield {"bootstrap_servers": server.bootstrap_servers, "topics": (_TOPIC,), "group_id": "demo"}
