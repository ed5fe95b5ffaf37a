"""The conformance suite of the receiver ``mqtt``, for ``penstock plugins check``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import paho.mqtt.client as mqtt

from penstock_brokers.proxied_feeder import ProxiedFeeder
from penstock_mqtt.demo import begin_session
from penstock_mqtt.message_columns import user_properties
from penstock_mqtt.mosquitto_server import MosquittoServer
from penstock_mqtt.mqtt_options import MqttOptions
from penstock_mqtt.mqtt_wiretap import MqttTraffic
from penstock_mqtt.publisher import Publisher
from penstock_testing import Capabilities, DeadLetter, Message, ReceiverSuite

# A broker expels a client that is silent for one and a half times its keepalive.
_KEEPALIVE_S = 2
_NUMBERS = itertools.count()


class MqttFeeder(ProxiedFeeder):
    """Publishes to a topic of its own, on a broker that the feeders of a process and of its forks share."""

    lease_s = 1.5 * _KEEPALIVE_S
    lacks: ClassVar = {
        "rebalances": "what a receiver had in flight stays in its session, until a receiver with its client id is back"
    }
    _server: ClassVar[MosquittoServer | None] = None

    @classmethod
    def prepare(cls) -> None:
        if cls._server is None:
            cls._server = MosquittoServer()
            cls._server.start()

    def __init__(self) -> None:
        self.prepare()
        assert self._server is not None
        super().__init__(self._server.port, MqttTraffic())
        name = f"check-{os.getpid()}-{next(_NUMBERS)}"
        self._topic = f"{name}/records"
        self._dead_topic = f"{name}/dead"
        self._client_id = name
        begin_session(MqttOptions(topics=(self._topic,), client_id=name, host="127.0.0.1", port=self._server.port))
        self._dead_letters: list[DeadLetter] = []
        self._publisher = Publisher(self._server.port, self._on_dead_letter).__enter__()
        self._publisher.subscribe(self._dead_topic)

    def options(self) -> Mapping[str, Any]:
        return {
            "topics": self._topic,
            "client_id": self._client_id,
            "host": "127.0.0.1",
            "port": self.proxy.port,
            "dead_letter": self._dead_topic,
        }

    def put(self, records: Sequence[Any]) -> None:
        self._publisher.publish(self._topic, [record.encode() for record in records])

    def put_bad(self) -> Message:
        bad = Message(b"\xff\xfe", {"unit": "K"})
        self._publisher.publish(self._topic, [bad.value], user_properties=bad.headers)
        return bad

    def oversize(self) -> tuple[Any, str]:
        return "x" * 5_000_000, "stored"

    def dead_letters(self) -> list[DeadLetter]:
        return list(self._dead_letters)

    def _on_dead_letter(self, message: mqtt.MQTTMessage) -> None:
        headers = dict(user_properties(message))
        letter = Message(bytes(message.payload), headers)
        self._dead_letters.append(DeadLetter(letter, headers.get("penstock-error", "")))

    def close(self) -> None:
        self._publisher.__exit__(None, None, None)
        super().close()


class MqttSuite(ReceiverSuite):
    """The receiver ``mqtt``."""

    name = "mqtt"
    feeder = MqttFeeder
    options: ClassVar = {"columns": "value", "value_as": "text", "keepalive": _KEEPALIVE_S}
    capabilities = Capabilities(acknowledged=True, arrow=True)
