"""The options of ``mqtt``: text becomes values, and what cannot work is refused before anything connects."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import ConfigurationError
from penstock.spi import structure_options
from penstock_mqtt import MqttOptions

REQUIRED = {"topics": "sensors/+/temperature,alarms/#", "client_id": "a"}


def options(**values: Any) -> MqttOptions:
    return structure_options("receiver 'mqtt'", MqttOptions, {**REQUIRED, **values})


def test_text_becomes_values() -> None:
    read = options(columns="value,topic", password="env:MQTT_PASSWORD", qos="0", keepalive="30")
    assert read.topics == ("sensors/+/temperature", "alarms/#")
    assert (read.columns, read.qos, read.keepalive) == (("value", "topic"), 0, 30)
    assert read.broker == "MQTT broker localhost:1883"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"topics": ""}, "topics"),
        ({"topics": "a/#/b"}, "# stands for all deeper levels"),
        ({"client_id": ""}, "client_id"),
        ({"qos": "2"}, "a client takes over a message before it is stored"),
        ({"qos": "3"}, "qos must be 1 or 0"),
        ({"password": "secret"}, "file:PATH or env:NAME"),
        ({"receive_maximum": "1"}, "receive_maximum"),
        ({"keepalive": "1"}, "keepalive"),
        ({"columns": "value,key"}, "columns"),
        ({"value_as": "avro"}, "value_as"),
        ({"retained": "sometimes"}, "retained"),
        ({"dead_letter": "a/#"}, "a topic to publish to"),
        ({"dead_letter": "a", "protocol": "3.1.1"}, "dead_letter needs protocol 5"),
        ({"tls_ca": "ca.pem"}, "tls_ca has no effect without tls=true"),
    ],
)
def test_invalid_option_is_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        options(**values)
    assert "secret" not in str(caught.value).replace("secret on its executor", "").replace("the secret", "")


def test_required_options_are_named() -> None:
    with pytest.raises(ConfigurationError, match="client_id"):
        structure_options("receiver 'mqtt'", MqttOptions, {"topics": "a"})
