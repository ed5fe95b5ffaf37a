"""The conformance suite of the receiver ``rabbitmq``, for ``penstock plugins check``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from penstock_brokers import TcpProxy
from penstock_rabbitmq.amqp_wiretap import AmqpTraffic
from penstock_rabbitmq.queue_publisher import QueuePublisher
from penstock_rabbitmq.rabbit_server import RabbitServer
from penstock_testing import Capabilities, Feeder, ReceiverSuite

_NUMBERS = itertools.count()


class RabbitFeeder(Feeder):
    """Publishes to a queue of its own, on a broker that the feeders of a process and of its forks share."""

    _server: ClassVar[RabbitServer | None] = None

    @classmethod
    def prepare(cls) -> None:
        if cls._server is None:
            cls._server = RabbitServer()
            cls._server.start()

    def __init__(self) -> None:
        self.prepare()
        assert self._server is not None
        self._queue = f"check-{os.getpid()}-{next(_NUMBERS)}"
        self._traffic = AmqpTraffic()
        self._proxy = TcpProxy("127.0.0.1", self._server.port, self._traffic.wiretap)
        self._publisher = QueuePublisher(self._server.port).__enter__()
        self._publisher.declare(self._queue)

    def options(self) -> Mapping[str, Any]:
        return {"queue": self._queue, "host": "127.0.0.1", "port": self._proxy.port}

    def put(self, records: Sequence[Any]) -> None:
        self._publisher.publish(self._queue, [record.encode() for record in records])

    def put_bad(self) -> None:
        self._publisher.publish(self._queue, [b"\xff\xfe"])

    def pause(self) -> None:
        self._proxy.pause()

    def cut(self) -> None:
        self._proxy.cut()

    def heal(self) -> None:
        self._proxy.heal()

    def acknowledged(self) -> list[Any]:
        return [body.decode() for body in self._traffic.acknowledged()]

    def taken(self) -> int:
        return self._traffic.delivered

    def polls(self) -> int:
        return self._proxy.accepted

    def close(self) -> None:
        self._publisher.delete(self._queue)
        self._publisher.__exit__(None, None, None)
        self._proxy.close()


class RabbitSuite(ReceiverSuite):
    """The receiver ``rabbitmq``."""

    name = "rabbitmq"
    feeder = RabbitFeeder
    options: ClassVar = {"columns": "value", "value_as": "text"}
    capabilities = Capabilities(acknowledged=True, arrow=True)
