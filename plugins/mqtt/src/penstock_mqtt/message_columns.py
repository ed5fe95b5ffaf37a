"""The columns of MQTT messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import paho.mqtt.client as mqtt
import pyarrow as pa

from penstock_brokers import ColumnReader, Delivery, ValueAs, decode


class MqttMessage(NamedTuple):
    """A message as the broker sent it. Much smaller than that of paho-mqtt, whose properties are 30 lists each."""

    packet_id: int
    topic: str
    payload: bytes
    qos: int
    is_retained: bool
    user_properties: Sequence[tuple[str, str]]


def message_of(received: mqtt.MQTTMessage) -> MqttMessage:
    """A message of paho-mqtt."""
    try:
        topic = received.topic
    except UnicodeDecodeError:
        # Against the rules of MQTT.
        topic = "\ufffd"
    qos, is_retained = received.qos, bool(received.retain)
    return MqttMessage(received.mid, topic, bytes(received.payload), qos, is_retained, user_properties(received))


MqttDelivery: TypeAlias = Delivery[MqttMessage]
Column = Literal["topic", "value", "qos", "retain", "properties", "timestamp"]

#: Column → what it contains.
MEANINGS: Mapping[str, str] = {
    "topic": "topic of the message",
    "value": "its payload, as `value_as` says",
    "qos": "QoS with which the broker sent it, 0 or 1",
    "retain": "whether the broker had retained it",
    "properties": "its user properties, a map of texts; of MQTT 5 only",
    "timestamp": "when it arrived at the receiver",
}
_PROPERTIES = pa.map_(pa.string(), pa.string())
_TIMESTAMP = pa.timestamp("us", "UTC")


def user_properties(message: mqtt.MQTTMessage) -> list[tuple[str, str]]:
    """The user properties of a message, which may repeat a name."""
    # Most messages have none, and paho-mqtt is slow to say so.
    pairs: list[tuple[str, str]] | None = vars(message.properties).get("UserProperty") if message.properties else None
    return pairs or []


def column_reader(columns: Sequence[Column], value_as: ValueAs) -> ColumnReader[MqttDelivery]:
    """The function that makes tables with these columns."""
    arrays: Mapping[str, Callable[[Sequence[MqttDelivery]], pa.Array]] = {
        "topic": lambda those: pa.array([each.message.topic for each in those], pa.string()),
        "value": lambda those: decode([each.message.payload for each in those], value_as),
        "qos": lambda those: pa.array([each.message.qos for each in those], pa.int8()),
        "retain": lambda those: pa.array([each.message.is_retained for each in those], pa.bool_()),
        "properties": lambda those: pa.array([each.message.user_properties for each in those], _PROPERTIES),
        "timestamp": lambda those: pa.array([int(each.arrived_s * 1_000_000) for each in those], _TIMESTAMP),
    }
    return ColumnReader(columns, arrays)
