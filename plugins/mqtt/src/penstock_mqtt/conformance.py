"""The conformance suite of the receiver ``mqtt``, for ``penstock plugins check``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from penstock_brokers import TcpProxy
from penstock_mqtt.demo import begin_session
from penstock_mqtt.mosquitto_server import MosquittoServer
from penstock_mqtt.mqtt_options import MqttOptions
from penstock_mqtt.mqtt_wiretap import MqttTraffic
from penstock_mqtt.publisher import Publisher
from penstock_testing import Capabilities, Feeder, ReceiverSuite

_NUMBERS = itertools.count()


class MqttFeeder(Feeder):
    """Publishes to a topic of its own, on a broker that the feeders of a process and of its forks share."""

    _server: ClassVar[MosquittoServer | None] = None

    @classmethod
    def prepare(cls) -> None:
        if cls._server is None:
            cls._server = MosquittoServer()
            cls._server.start()

    def __init__(self) -> None:
        self.prepare()
        assert self._server is not None
        name = f"check-{os.getpid()}-{next(_NUMBERS)}"
        self._topic = f"{name}/records"
        self._client_id = name
        self._traffic = MqttTraffic()
        self._proxy = TcpProxy("127.0.0.1", self._server.port, self._traffic.wiretap)
        begin_session(MqttOptions(topics=(self._topic,), client_id=name, host="127.0.0.1", port=self._server.port))
        self._publisher = Publisher(self._server.port).__enter__()

    def options(self) -> Mapping[str, Any]:
        return {"topics": self._topic, "client_id": self._client_id, "host": "127.0.0.1", "port": self._proxy.port}

    def put(self, records: Sequence[Any]) -> None:
        self._publisher.publish(self._topic, [record.encode() for record in records])

    def put_bad(self) -> None:
        self._publisher.publish(self._topic, [b"\xff\xfe"])

    def pause(self) -> None:
        self._proxy.pause()

    def cut(self) -> None:
        self._proxy.cut()

    def heal(self) -> None:
        self._proxy.heal()

    def acknowledged(self) -> list[Any]:
        return [payload.decode() for payload in self._traffic.acknowledged()]

    def taken(self) -> int:
        return self._traffic.delivered

    def polls(self) -> int:
        return self._proxy.accepted

    def close(self) -> None:
        self._publisher.__exit__(None, None, None)
        self._proxy.close()


class MqttSuite(ReceiverSuite):
    """The receiver ``mqtt``."""

    name = "mqtt"
    feeder = MqttFeeder
    options: ClassVar = {"columns": "value", "value_as": "text"}
    capabilities = Capabilities(acknowledged=True, arrow=True)
