"""A receiver's process is killed at a random moment: the broker delivers again what was not stored."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable

import pytest
from plugins.mqtt.tests.conftest import Receive

from penstock_mqtt import MqttOptions
from penstock_mqtt.mosquitto_server import MosquittoServer
from penstock_mqtt.publisher import Publisher

COUNT = 2000
# Prints the records of a block once it is stored, as a driver that accepts it.
PROGRAM = """
import sys
from penstock import ReceiverHost
from penstock.spi import structure_options
from penstock_mqtt import MqttOptions, MqttReceiver

port, topic = sys.argv[1:]
given = {"topics": topic, "client_id": topic, "host": "127.0.0.1", "port": port, "columns": "value", "value_as": "text"}
options = structure_options("receiver 'mqtt'", MqttOptions, {**given, "receive_maximum": 100})

def take(block):
    print("".join(f"{record}\\n" for record in block.records()), end="", flush=True)

with ReceiverHost(MqttReceiver(options), take) as host:
    host.await_termination(60)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_receiver_loses_nothing_and_repeats_only_what_was_in_flight(
    broker: MosquittoServer,
    options: Callable[..., MqttOptions],
    publisher: Publisher,
    receive: Receive,
    topic: str,
    seed: int,
) -> None:
    made = options(value_as="text", receive_maximum=100)
    publisher.publish(topic, [b"%d" % number for number in range(COUNT)])
    arguments = [sys.executable, "-c", PROGRAM, str(broker.port), topic]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        stored = [process.stdout.readline() for _ in range(random.Random(seed).randrange(1, COUNT))]
        process.kill()
        stored += process.stdout.readlines()
    first = [int(line) for line in stored if line.endswith("\n")]
    assert first == list(range(len(first)))
    harness = receive(made)
    harness.until(lambda: harness.records[-1:] == [str(COUNT - 1)] or len(first) == COUNT)
    second = [int(record) for record in harness.records]
    assert set(first) | set(second) == set(range(COUNT))
    # The window, and what Mosquitto sends beyond it.
    assert len(first) + len(second) <= COUNT + 300
