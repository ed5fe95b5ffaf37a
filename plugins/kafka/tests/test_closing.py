"""Closing takes a bounded time, whatever the client does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock_kafka import KafkaOptions, consumer_group, share_reader
from penstock_kafka.consumer_group import ConsumerGroup
from penstock_kafka.share_reader import ShareReader


class StuckClient:
    """A client whose ``close`` waits for a broker that is away."""

    closing = threading.Event()
    answered = threading.Event()

    def __init__(self, *_arguments: object, **_options: object) -> None:
        pass

    def subscribe(self, *_topics: object, **_callbacks: object) -> None:
        pass

    def close(self) -> None:
        self.closing.set()
        self.answered.wait()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[StuckClient]]:
    for module, name in ((consumer_group, "Consumer"), (share_reader, "ShareConsumer")):
        monkeypatch.setattr(module, name, StuckClient)
        monkeypatch.setattr(module, "_CLOSE_S", 0.05)
    StuckClient.closing.clear()
    StuckClient.answered.clear()
    yield StuckClient
    StuckClient.answered.set()


def close_group(options: KafkaOptions) -> None:
    ConsumerGroup(options, {}, settle=lambda: None, report=lambda _error: None).close()


def close_share_reader(options: KafkaOptions) -> None:
    receiver: Any = SimpleNamespace(block_interval_ms=200, reportError=lambda _error: None)
    with ShareReader(receiver, options):
        pass


@pytest.mark.parametrize("close", [close_group, close_share_reader])
def test_close_returns_before_the_client_has_closed(
    client: type[StuckClient], close: Callable[[KafkaOptions], None]
) -> None:
    close(KafkaOptions(bootstrap_servers="127.0.0.1:1", topics=("t",), group_id="g"))
    assert client.closing.is_set()
    assert not client.answered.is_set()
