"""A broker for all tests of this folder, which starts while other tests run, and receivers of it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from penstock.spi import structure_options
from penstock_rabbitmq import RabbitOptions, RabbitReceiver
from penstock_rabbitmq.conformance import RabbitFeeder
from penstock_rabbitmq.queue_publisher import QueuePublisher
from penstock_rabbitmq.rabbit_server import RabbitServer
from penstock_testing import ReceiverHarness
from penstock_testing.subject import encode_a_block

AT_ONCE = {"spark.penstock.receiver.storeRetries": "0"}
_NUMBERS = itertools.count()
_starting: list[threading.Thread] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the broker before the first test of the run: it takes six seconds, or many more on a busy machine."""
    folder = Path(__file__).parent
    if not session.config.option.collectonly and any(
        folder in item.path.parents and "broker" in getattr(item, "fixturenames", ()) for item in session.items
    ):
        # An error of it is raised again where the broker is used.
        thread = threading.Thread(target=lambda: RabbitFeeder.prepare(), daemon=True)
        thread.start()
        _starting.append(thread)


@pytest.fixture(scope="session")
def broker() -> RabbitServer:
    """The broker, which the conformance checks use, too."""
    for thread in _starting:
        thread.join()
    RabbitFeeder.prepare()
    encode_a_block()
    assert RabbitFeeder._server is not None  # one server for this folder: starting another takes seconds
    return RabbitFeeder._server


@pytest.fixture
def publisher(broker: RabbitServer) -> Iterator[QueuePublisher]:
    with QueuePublisher(broker.port) as publisher:
        yield publisher


@pytest.fixture
def queue(publisher: QueuePublisher) -> Iterator[str]:
    """A classic queue of this test alone."""
    name = f"test-{next(_NUMBERS)}"
    publisher.declare(name)
    yield name
    publisher.delete(name)


def read(port: int, queue: str, **values: Any) -> RabbitOptions:
    """The options of a receiver of a broker on this machine."""
    given = {"queue": queue, "host": "127.0.0.1", "port": port, "columns": "value", **values}
    made: RabbitOptions = structure_options("receiver 'rabbitmq'", RabbitOptions, given)
    return made


class Receive(Protocol):
    def __call__(
        self, queue: str, conf: Mapping[str, str] | None = None, *, port: int = 0, **values: Any
    ) -> ReceiverHarness: ...


@pytest.fixture
def receive(broker: RabbitServer) -> Iterator[Receive]:
    """Runs receivers, and stops them at the end of the test."""
    harnesses: list[ReceiverHarness] = []

    def run(queue: str, conf: Mapping[str, str] | None = None, *, port: int = 0, **values: Any) -> ReceiverHarness:
        harness = ReceiverHarness(RabbitReceiver(read(port or broker.port, queue, **values)), conf)
        harnesses.append(harness)
        harness.start()
        return harness

    yield run
    for harness in harnesses:
        harness.accept()
        harness.stop()
