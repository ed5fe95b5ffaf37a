"""A receiver that is slow to answer delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Receiver
from penstock.receive.messages import StopReceiver, UpdateRateLimit

if TYPE_CHECKING:
    from tests.track.conftest import FakeProcess, Tracked


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def pair(
    make_tracker: Callable[..., Tracked], silent: type[Receiver[Any]], gate: threading.Event
) -> tuple[Tracked, FakeProcess, FakeProcess]:
    """A tracker, a receiver that does not answer until the gate is open, one that does."""
    tracked = make_tracker([silent(), silent()])
    tracked.tracker.start()
    tracked.launch(2)
    slow, fast = sorted((tracked.registered(1), tracked.registered(2)), key=lambda process: process.task.stream_id)
    slow.on_message = lambda _message: gate.wait(60)
    return tracked, slow, fast


def test_slow_receiver_delays_no_rate_of_another(pair: tuple[Tracked, FakeProcess, FakeProcess]) -> None:
    # As when ``on_rate_change`` waits for a broker.
    tracked, _slow, fast = pair
    tracked.tracker.send_rate_update(0, 10.0)
    tracked.tracker.send_rate_update(1, 20.0)
    assert fast.received.await_one(UpdateRateLimit, timeout_s=20).rate == 20.0


def test_slow_receiver_delays_no_report_of_another(pair: tuple[Tracked, FakeProcess, FakeProcess]) -> None:
    tracked, slow, fast = pair
    tracked.tracker.send_rate_update(0, 10.0)
    slow.received.await_one(UpdateRateLimit)
    before = time.monotonic()
    assert fast.report("something happened").accepted
    assert time.monotonic() - before < 20


def test_slow_receiver_delays_no_stop_of_another(
    pair: tuple[Tracked, FakeProcess, FakeProcess], gate: threading.Event
) -> None:
    tracked, slow, fast = pair
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + 30)
        try:
            assert fast.received.await_one(StopReceiver, timeout_s=20)
        finally:
            gate.set()
            slow.received.await_one(StopReceiver)
            for process in (slow, fast):
                process.launch.end()
            stopping.result(timeout=20)


def test_slow_receiver_gets_the_newest_update_only(
    pair: tuple[Tracked, FakeProcess, FakeProcess], gate: threading.Event
) -> None:
    tracked, slow, _fast = pair
    tracked.tracker.send_rate_update(0, 10.0)
    slow.received.await_one(UpdateRateLimit)
    for rate in range(1, 1001):
        tracked.tracker.send_rate_update(0, float(rate))
        tracked.tracker.pause(rate % 2 == 0)
    tracked.settle()
    # No public name for a leak: messages to a slow receiver.
    assert len(tracked.connection()._queue._heap) <= 1
    gate.set()
    newest = slow.received.await_one(UpdateRateLimit, 2)
    assert (newest.rate, newest.paused) == (1000.0, True)
    tracked.settle()
    assert slow.received.names == ["UpdateRateLimit"] * 2


def test_stop_overtakes_a_hanging_rate_update(tracked: Tracked) -> None:
    gate = threading.Event()
    process = tracked.registered()
    process.on_message = lambda message: isinstance(message, UpdateRateLimit) and gate.wait(60)
    tracked.tracker.send_rate_update(0, 10.0)
    process.received.await_one(UpdateRateLimit)
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + 30)
        try:
            assert process.received.await_one(StopReceiver)
        finally:
            gate.set()
            process.received.await_one(StopReceiver)
            process.launch.end()
            stopping.result(timeout=20)
