"""A receiver's process is killed at a random moment: RabbitMQ delivers again what was not stored."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from plugins.brokers.tests.storing_process import stored, storing
from plugins.rabbitmq.tests.conftest import Receive
from tests.helpers import wait_for

from penstock_rabbitmq.queue_publisher import QueuePublisher
from penstock_rabbitmq.rabbit_server import RabbitServer

COUNT = 3000
PREFETCH = 200


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_receiver_loses_nothing_and_repeats_only_what_was_in_flight(
    broker: RabbitServer, publisher: QueuePublisher, receive: Receive, queue: str, tmp_path: Path, seed: int
) -> None:
    publisher.publish(queue, [b"%d" % number for number in range(COUNT)])
    given = {"queue": queue, "host": "127.0.0.1", "port": broker.port, "prefetch": PREFETCH}
    with storing("rabbitmq", {**given, "columns": "value", "value_as": "text"}, tmp_path):
        least = random.Random(seed).randrange(1, COUNT - PREFETCH)
        wait_for(lambda: len(stored(tmp_path)) >= least, "some messages")
    first = [int(text) for text in stored(tmp_path)]
    assert first == list(range(len(first)))
    harness = receive(queue, value_as="text")
    harness.until(lambda: len({*first, *map(int, harness.records)}) == COUNT)
    harness.stop()
    assert len(first) + harness.count <= COUNT + PREFETCH
