"""A server for all tests of a process, and streams of their own on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock_redis import RedisOptions
from penstock_redis.redis_receiver import RedisReceiver
from penstock_redis.server import RedisServer

_NUMBERS = itertools.count()


class Stream:
    """A stream that only one test uses, and its group."""

    # The client's types allow the replies of every version of the protocol.
    def __init__(self, server: RedisServer, client: Any) -> None:
        self.name = f"stream-{next(_NUMBERS)}"
        self.server = server
        self.client = client

    def add(self, *values: str | bytes, **fields: str) -> list[bytes]:
        """Append an entry with the field ``value`` for each value."""
        return [self.client.xadd(self.name, {"value": value, **fields}) for value in values]

    def receiver(self, **options: Any) -> RedisReceiver:
        values = {"port": self.server.port, "streams": self.name, "columns": ("value",), **options}
        return RedisReceiver(RedisOptions(host="127.0.0.1", **values))

    def pending(self, group: str = "penstock") -> dict[bytes, tuple[str, int]]:
        """Id → consumer and number of deliveries of the entries that are not acknowledged."""
        entries = self.client.xpending_range(self.name, group, "-", "+", 1000)
        return {entry["message_id"]: (entry["consumer"].decode(), entry["times_delivered"]) for entry in entries}

    def read_as(self, consumer: str, count: int = 1000) -> None:
        """Deliver entries to a consumer, which then dies."""
        self.client.xreadgroup("penstock", consumer, {self.name: ">"}, count)


@pytest.fixture(scope="session", autouse=True)
def _imports() -> None:
    """Do what takes long for the first array of a process: Arrow imports pandas."""
    pa.array([b""])


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def stream(server: RedisServer) -> Iterator[Stream]:
    with server.client() as client:
        yield Stream(server, client)


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server that the test may kill."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def own_stream(own_server: RedisServer) -> Iterator[Stream]:
    with own_server.client() as client:
        yield Stream(own_server, client)
