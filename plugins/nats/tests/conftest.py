"""One server for all tests but those that harm it, and a stream for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from plugins.nats.tests.js_stream import JsStream

from penstock_nats.nats_server import NatsServer

_numbers = itertools.count()


@pytest.fixture(scope="session")
def shared_server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
def stream(shared_server: NatsServer) -> JsStream:
    return JsStream(shared_server, f"s{next(_numbers)}")


@pytest.fixture
def server() -> Iterator[NatsServer]:
    """One that the test may kill."""
    with NatsServer() as server:
        yield server
