"""The conformance suite of the receiver ``rabbitmq``, for ``penstock plugins check``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pika

from penstock_brokers.proxied_feeder import ProxiedFeeder
from penstock_rabbitmq.amqp_wiretap import AmqpTraffic
from penstock_rabbitmq.queue_publisher import QueuePublisher
from penstock_rabbitmq.rabbit_server import RabbitServer
from penstock_testing import Capabilities, DeadLetter, Message, ReceiverSuite

# RabbitMQ closes a connection that is silent for two heartbeats.
_HEARTBEAT_S = 1
_NUMBERS = itertools.count()


class RabbitFeeder(ProxiedFeeder):
    """Publishes to a queue of its own, on a broker that the feeders of a process and of its forks share."""

    lease_s = 2.0 * _HEARTBEAT_S
    rebalances = True
    _server: ClassVar[RabbitServer | None] = None

    @classmethod
    def prepare(cls) -> None:
        if cls._server is None:
            cls._server = RabbitServer()
            cls._server.start()

    def __init__(self) -> None:
        self.prepare()
        assert self._server is not None
        super().__init__(self._server.port, AmqpTraffic())
        self._queue = f"check-{os.getpid()}-{next(_NUMBERS)}"
        self._publisher = QueuePublisher(self._server.port).__enter__()
        self._dead_queue = f"{self._queue}-dead"
        self._dead_letters: list[DeadLetter] = []
        for queue in (self._queue, self._dead_queue):
            self._publisher.declare(queue)

    def options(self) -> Mapping[str, Any]:
        return {
            "queue": self._queue,
            "host": "127.0.0.1",
            "port": self.proxy.port,
            "dead_letter": self._dead_queue,
        }

    def put(self, records: Sequence[Any]) -> None:
        self._publisher.publish(self._queue, [record.encode() for record in records])

    def put_bad(self) -> Message:
        bad = Message(b"\xff\xfe", {"unit": "K"})
        self._publisher.publish(self._queue, [bad.value], pika.BasicProperties(headers=dict(bad.headers)))
        return bad

    def oversize(self) -> tuple[Any, str]:
        return "x" * 5_000_000, "stored"

    def dead_letters(self) -> list[DeadLetter]:
        while (found := self._publisher.get(self._dead_queue)) is not None:
            properties, body = found
            headers = properties.headers or {}
            letter = DeadLetter(Message(body, headers), headers["penstock-error"], int(headers["penstock-deliveries"]))
            self._dead_letters.append(letter)
        return list(self._dead_letters)

    def close(self) -> None:
        for queue in (self._queue, self._dead_queue):
            self._publisher.delete(queue)
        self._publisher.__exit__(None, None, None)
        super().close()


class RabbitSuite(ReceiverSuite):
    """The receiver ``rabbitmq``."""

    name = "rabbitmq"
    feeder = RabbitFeeder
    options: ClassVar = {"columns": "value", "value_as": "text", "heartbeat": _HEARTBEAT_S}
    capabilities = Capabilities(acknowledged=True, arrow=True)
