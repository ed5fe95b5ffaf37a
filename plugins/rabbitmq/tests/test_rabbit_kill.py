"""A receiver's process is killed at a random moment: RabbitMQ delivers again what was not stored."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from plugins.rabbitmq.tests.conftest import Receive

from penstock_rabbitmq.queue_publisher import QueuePublisher
from penstock_rabbitmq.rabbit_server import RabbitServer

COUNT = 3000
PREFETCH = 200
# Prints the records of a block once it is stored, as a driver that accepts it.
PROGRAM = """
import sys
from penstock import ReceiverHost
from penstock.spi import structure_options
from penstock_rabbitmq import RabbitOptions, RabbitReceiver

port, queue, prefetch = sys.argv[1:]
given = {"queue": queue, "host": "127.0.0.1", "port": port, "columns": "value", "value_as": "text"}
options = structure_options("receiver 'rabbitmq'", RabbitOptions, {**given, "prefetch": prefetch})

def take(block):
    print("".join(f"{record}\\n" for record in block.records()), end="", flush=True)

with ReceiverHost(RabbitReceiver(options), take) as host:
    host.await_termination(60)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_receiver_loses_nothing_and_repeats_only_what_was_in_flight(
    broker: RabbitServer, publisher: QueuePublisher, receive: Receive, queue: str, seed: int
) -> None:
    publisher.publish(queue, [b"%d" % number for number in range(COUNT)])
    arguments = [sys.executable, "-c", PROGRAM, str(broker.port), queue, str(PREFETCH)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        stored = [process.stdout.readline() for _ in range(random.Random(seed).randrange(1, COUNT - PREFETCH))]
        process.kill()
        stored += process.stdout.readlines()
    first = [int(line) for line in stored if line.endswith("\n")]
    assert first == list(range(len(first)))
    harness = receive(queue, value_as="text")
    harness.until(lambda: len({*first, *map(int, harness.records)}) == COUNT)
    harness.stop()
    assert len(first) + harness.count <= COUNT + PREFETCH
