"""The receiver of this distribution passes the conformance checks."""

from __future__ import annotations

from penstock_mqtt.conformance import MqttSuite


class TestMqtt(MqttSuite):
    pass
