"""A broker for all tests of this folder, and a receiver of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from penstock.spi import structure_options
from penstock_mqtt import MqttOptions, MqttReceiver
from penstock_mqtt.demo import begin_session
from penstock_mqtt.mosquitto_server import MosquittoServer
from penstock_mqtt.publisher import Publisher
from penstock_testing import ReceiverHarness
from penstock_testing.subject import encode_a_block

AT_ONCE = {"spark.penstock.receiver.storeRetries": "0"}
_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def broker() -> Iterator[MosquittoServer]:
    # Imports what the first harness would import within its time limit.
    encode_a_block()
    with MosquittoServer() as server:
        yield server


@pytest.fixture
def own_broker() -> Iterator[MosquittoServer]:
    """A broker that a test may kill."""
    with MosquittoServer() as server:
        yield server


@pytest.fixture
def publisher(broker: MosquittoServer) -> Iterator[Publisher]:
    with Publisher(broker.port) as publisher:
        yield publisher


@pytest.fixture
def topic() -> str:
    """A topic of this test alone."""
    return f"test/{next(_NUMBERS)}"


Receive = Callable[..., ReceiverHarness]


@pytest.fixture
def options(broker: MosquittoServer, topic: str) -> Callable[..., MqttOptions]:
    """The options of a receiver, which has begun its session: the broker keeps what is published from now on."""

    def make(**values: Any) -> MqttOptions:
        made = read(values.pop("port", broker.port), topic, **values)
        begin_session(made)
        return made

    return make


def read(port: int, topic: str, **values: Any) -> MqttOptions:
    """The options of a receiver of a broker on this machine."""
    given: Mapping[str, Any] = {
        "topics": topic,
        "client_id": topic,
        "host": "127.0.0.1",
        "port": port,
        "columns": "value",
        **values,
    }
    return structure_options("receiver 'mqtt'", MqttOptions, given)


@pytest.fixture
def receive() -> Iterator[Receive]:
    """Runs receivers, and stops them at the end of the test."""
    harnesses: list[ReceiverHarness] = []

    def run(options: MqttOptions, conf: Mapping[str, str] | None = None) -> ReceiverHarness:
        harness = ReceiverHarness(MqttReceiver(options), conf)
        harnesses.append(harness)
        harness.start()
        return harness

    yield run
    for harness in harnesses:
        harness.accept()
        harness.stop()
