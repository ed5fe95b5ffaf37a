"""A receiver for MQTT brokers."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import ReceiverSpec, hookimpl
from penstock_mqtt.mqtt_options import MqttOptions
from penstock_mqtt.mqtt_receiver import MqttReceiver

__all__ = ["MqttOptions", "MqttReceiver", "receivers"]


@hookimpl
def receivers() -> Iterable[ReceiverSpec]:
    """Offer the receiver ``mqtt``."""
    return (ReceiverSpec("mqtt", MqttReceiver, MqttOptions, "messages of an MQTT broker, acknowledged once stored"),)
