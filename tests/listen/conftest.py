"""Listeners that note what they hear, and a bus that is stopped at the end."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock import BatchCompleted, BatchInfo
from penstock.listen.listener_bus import ListenerBus


class Listener:
    """Notes the times of StreamingStarted events, in order; does what it is told with each."""

    def __init__(self, on_event: Callable[[int], object] = lambda _time: None) -> None:
        self.heard: list[int] = []
        self.never_drop = False
        self.on_event = on_event
        self._changed = threading.Condition()

    def onStreamingStarted(self, streamingStarted: Any) -> None:
        with self._changed:
            self.heard.append(streamingStarted.time)
            self._changed.notify_all()
        self.on_event(streamingStarted.time)

    def await_heard(self, count: int) -> list[int]:
        """What it heard, once that is so much."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.heard) >= count, 10), self.heard
            return list(self.heard)


@pytest.fixture
def make_listener() -> type[Listener]:
    return Listener


@pytest.fixture
def make_bus() -> Iterator[Callable[..., ListenerBus]]:
    buses: list[ListenerBus] = []

    def make(queue_size: int = 100_000, max_failures: int = 10) -> ListenerBus:
        buses.append(ListenerBus(queue_size, max_failures))
        buses[-1].start()
        return buses[-1]

    yield make
    for bus in buses:
        bus.stop(1)


@pytest.fixture
def bus(make_bus: Callable[..., ListenerBus]) -> ListenerBus:
    return make_bus()


@pytest.fixture
def completed() -> BatchCompleted:
    """An event of another kind."""
    return BatchCompleted(BatchInfo(1000, {}, 1001, 1002, 1003, {}))
