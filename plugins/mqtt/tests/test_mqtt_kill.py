"""A receiver's process is killed at a random moment: the broker delivers again what was not stored."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from plugins.brokers.tests.storing_process import stored, storing
from plugins.mqtt.tests.conftest import Receive
from tests.helpers import wait_for

from penstock_brokers import TcpProxy
from penstock_mqtt import MqttOptions
from penstock_mqtt.mosquitto_server import MosquittoServer
from penstock_mqtt.mqtt_wiretap import MqttTraffic
from penstock_mqtt.publisher import Publisher

COUNT = 2000
WINDOW = 100


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
    made = options(value_as="text", receive_maximum=WINDOW)
    traffic = MqttTraffic()
    least = random.Random(seed).randrange(1, COUNT)
    # The proxy hands on what the receiver has acknowledged before the kill.
    with TcpProxy("127.0.0.1", broker.port, traffic.wiretap) as proxy:
        given = {"topics": topic, "client_id": topic, "host": "127.0.0.1", "port": proxy.port}
        given |= {"columns": "value", "value_as": "text", "receive_maximum": WINDOW}
        published = 0
        with storing("mqtt", given, tmp_path):
            # Mosquitto 2.0.11 exceeds Receive Maximum when it has more to send. So it never has.
            while published < COUNT and len(stored(tmp_path)) < least:
                unread = published - WINDOW // 2
                wait_for(lambda least=unread: len(traffic.acknowledged()) >= least, "acknowledgements")  # type: ignore[misc]
                publisher.publish(topic, numbered(published, published + WINDOW // 2))
                published += WINDOW // 2
            wait_for(lambda: len(stored(tmp_path)) >= least, "some messages")
        wait_for(lambda: not proxy.connections, "the broker has read the last acknowledgements")
    publisher.publish(topic, numbered(published, COUNT))
    first = [int(text) for text in stored(tmp_path)]
    assert first == list(range(len(first)))
    acknowledged = [int(text) for text in traffic.acknowledged()]
    assert acknowledged == first[: len(acknowledged)]
    assert len(first) - len(acknowledged) <= WINDOW
    harness = receive(made)
    harness.until(lambda: harness.records[-1:] == [str(COUNT - 1)] or len(acknowledged) == COUNT)
    assert [int(record) for record in harness.records] == list(range(len(acknowledged), COUNT))


def numbered(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_receiver_of_a_backlog_repeats_at_most_what_the_broker_had_sent(
    broker: MosquittoServer,
    options: Callable[..., MqttOptions],
    publisher: Publisher,
    receive: Receive,
    topic: str,
    tmp_path: Path,
    seed: int,
) -> None:
    """With a backlog, Mosquitto before 2.0.13 has more in flight than Receive Maximum."""
    made = options(value_as="text", receive_maximum=WINDOW)
    traffic = MqttTraffic()
    publisher.publish(topic, numbered(0, COUNT))
    least = random.Random(seed).randrange(1, COUNT)
    with TcpProxy("127.0.0.1", broker.port, traffic.wiretap) as proxy:
        given = {"topics": topic, "client_id": topic, "host": "127.0.0.1", "port": proxy.port}
        given |= {"columns": "value", "value_as": "text", "receive_maximum": WINDOW}
        with storing("mqtt", given, tmp_path):
            wait_for(lambda: len(stored(tmp_path)) >= least, "some messages")
        wait_for(lambda: not proxy.connections, "the broker has read the last acknowledgements")
    first = [int(text) for text in stored(tmp_path)]
    acknowledged = [int(text) for text in traffic.acknowledged()]
    assert first == list(range(len(first)))
    assert acknowledged == first[: len(acknowledged)]
    # Blocks have half of the window: one was stored and not acknowledged yet, and one was being stored.
    assert len(first) - len(acknowledged) <= WINDOW
    harness = receive(made)
    harness.until(lambda: harness.records[-1:] == [str(COUNT - 1)] or len(acknowledged) == COUNT)
    again = [int(record) for record in harness.records]
    assert again == list(range(len(acknowledged), COUNT))
    harness.until(lambda: harness.info.source is not None)
    assert harness.info.source is not None
    assert (harness.info.source.redelivered or 0) <= traffic.delivered - len(acknowledged)
