"""The demonstration ``penstock demo mqtt``: a broker that keeps the receiver's session."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock_mqtt.mosquitto_server import MosquittoServer
from penstock_mqtt.mqtt_options import MqttOptions
from penstock_mqtt.mqtt_session import MqttSession
from penstock_mqtt.publisher import Publisher

_TOPIC = "demo/lines"
_CLIENT_ID = "penstock-demo"


@contextlib.contextmanager
def demo() -> Iterator[tuple[Mapping[str, Any], Callable[[Sequence[str]], None]]]:
    """Run a broker; gives the options of the receiver, and a function that sends lines."""
    with MosquittoServer() as server, Publisher(server.port) as publisher:
        begin_session(MqttOptions(topics=(_TOPIC,), client_id=_CLIENT_ID, host="127.0.0.1", port=server.port))

        def send(lines: Sequence[str]) -> None:
            publisher.publish(_TOPIC, [line.encode() for line in lines])

        options = {
            "topics": _TOPIC,
            "client_id": _CLIENT_ID,
            "host": "127.0.0.1",
            "port": server.port,
            "value_as": "text",
            "columns": "value",
        }
        yield options, send


def begin_session(options: MqttOptions) -> None:
    """Subscribe and disconnect: from now on the broker keeps messages for the client id."""
    with MqttSession(options, options.receive_maximum) as session:
        session.open()
