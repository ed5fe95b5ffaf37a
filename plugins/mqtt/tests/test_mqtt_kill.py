"""A receiver's process is killed at a random moment: the broker delivers again what was not stored."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from plugins.brokers.tests.storing_process import stored, storing
from plugins.mqtt.tests.conftest import Receive
from tests.helpers import wait_for

from penstock_mqtt import MqttOptions
from penstock_mqtt.mosquitto_server import MosquittoServer
from penstock_mqtt.publisher import Publisher

COUNT = 2000


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_receiver_loses_nothing_and_repeats_only_what_was_in_flight(
    broker: MosquittoServer,
    options: Callable[..., MqttOptions],
    publisher: Publisher,
    receive: Receive,
    topic: str,
    tmp_path: Path,
    seed: int,
) -> None:
    made = options(value_as="text", receive_maximum=100)
    publisher.publish(topic, [b"%d" % number for number in range(COUNT)])
    given = {"topics": topic, "client_id": topic, "host": "127.0.0.1", "port": broker.port, "receive_maximum": 100}
    with storing("mqtt", {**given, "columns": "value", "value_as": "text"}, tmp_path):
        least = random.Random(seed).randrange(1, COUNT)
        wait_for(lambda: len(stored(tmp_path)) >= least, "some messages")
    first = [int(text) for text in stored(tmp_path)]
    assert first == list(range(len(first)))
    harness = receive(made)
    harness.until(lambda: harness.records[-1:] == [str(COUNT - 1)] or len(first) == COUNT)
    second = [int(record) for record in harness.records]
    assert set(first) | set(second) == set(range(COUNT))
    # The window, and what Mosquitto sends beyond it.
    assert len(first) + len(second) <= COUNT + 300
