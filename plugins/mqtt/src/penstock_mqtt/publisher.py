"""``Publisher``: publishes messages and waits until the broker has them, for tests and the demonstration."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

_ANSWER_S = 30.0
_IN_FLIGHT = 500


def publish_properties(user_properties: Sequence[tuple[str, str]]) -> Properties:
    """The properties of a message to publish."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = list(user_properties)
    return properties


class Publisher:
    """A client that publishes, inside a ``with`` block.

    Args:
        port: port of a broker on this machine.
        on_message: called with the messages of the topics that it subscribes to, on a thread of its own.
    """

    def __init__(self, port: int, on_message: Callable[[mqtt.MQTTMessage], None] | None = None) -> None:
        self._port = port
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self._client.max_inflight_messages_set(_IN_FLIGHT)
        self._subscribed = threading.Event()
        self._client.on_subscribe = lambda *_answer: self._subscribed.set()
        if on_message is not None:
            self._client.on_message = lambda _client, _data, message: on_message(message)

    def __enter__(self) -> Self:
        self._client.connect("127.0.0.1", self._port)
        self._client.loop_start()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        self._client.disconnect()
        self._client.loop_stop()
        # The client closes the sockets that wake its thread when nothing refers to it any more.
        del self._client

    def subscribe(self, topic: str) -> None:
        """Subscribe to a topic, and return when the broker has confirmed it."""
        self._client.subscribe(topic, 1)
        self._subscribed.wait(_ANSWER_S)

    def publish(
        self,
        topic: str,
        payloads: Iterable[bytes],
        *,
        qos: int = 1,
        retain: bool = False,
        user_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Publish messages, and return when the broker has confirmed all of them.

        Raises:
            TimeoutError: the broker did not confirm a message within 30 s.
        """
        properties = publish_properties(list(user_properties.items())) if user_properties else None
        sent = [self._client.publish(topic, payload, qos, retain, properties) for payload in payloads]
        for each in sent:
            each.wait_for_publish(_ANSWER_S)
            if not each.is_published():
                raise TimeoutError(f"the broker did not confirm a message within {_ANSWER_S:g} s")
