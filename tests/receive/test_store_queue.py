"""``StoreQueue``: takes what callbacks give it without waiting, and stores it in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import await_blocked

from penstock import ReceiverStoppedError
from penstock.receive import store_queue
from penstock.receive.messages import UpdateRateLimit
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.spi import StoreQueue

if TYPE_CHECKING:
    from tests.receive.conftest import Noting

Supervise = Callable[..., ReceiverSupervisor]


def test_records_are_stored_in_order(supervise: Supervise, receiver: Noting, records: Callable[[], list[Any]]) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    stored: list[object] = []
    queue: StoreQueue[int] = StoreQueue(receiver)
    assert all(queue.put(number, lambda error: stored.append(error)) for number in range(100))
    assert queue.stop()
    supervisor.stop("enough")
    assert records() == list(range(100))
    assert stored == [None] * 100


def test_put_does_not_wait_and_refuses_when_full(supervise: Supervise, receiver: Noting) -> None:
    supervisor = supervise(receiver, {"spark.streaming.receiver.maxRate": "0.01"})
    supervisor.start()
    receiver.store("first")
    queue: StoreQueue[int] = StoreQueue(receiver, max_records=2)
    assert queue.put(0)
    await_blocked(RateLimiter.acquire)
    assert [queue.put(number) for number in (1, 2, 3)] == [True, True, False]
    supervisor.stop("enough")
    assert queue.stop()


def test_on_stored_of_a_record_that_a_stop_finds_in_the_queue_gets_the_error(
    supervise: Supervise, receiver: Noting, records: Callable[[], list[Any]]
) -> None:
    errors: list[BaseException | None] = []
    supervisor = supervise(receiver, {"spark.streaming.receiver.maxRate": "0.01"})
    supervisor.start()
    receiver.store("first")
    queue: StoreQueue[int] = StoreQueue(receiver)
    receiver.on_stop = queue.stop
    for number in range(3):
        queue.put(number, errors.append)
    queue.put(4)
    await_blocked(RateLimiter.acquire)
    supervisor.stop("enough")
    assert [type(error) for error in errors] == [ReceiverStoppedError] * 3
    assert records() == ["first"]
    assert not queue.put(5)


def test_a_stopped_queue_takes_nothing_though_it_still_stores(
    supervise: Supervise, receiver: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_queue, "_STOP_S", 0.01)
    supervisor = supervise(receiver, {"spark.streaming.receiver.maxRate": "0.01"})
    supervisor.start()
    receiver.store("first")
    queue: StoreQueue[int] = StoreQueue(receiver)
    assert queue.put(0)
    await_blocked(RateLimiter.acquire)
    assert not queue.stop()
    # It would wait behind the end of the queue, and neither be stored nor be reported.
    assert not queue.put(1)
    supervisor.stop("enough")


def test_stop_returns_though_the_queue_is_held(
    supervise: Supervise, receiver: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_queue, "_STOP_S", 0.01)
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.take(UpdateRateLimit(0.0, 1, True))
    queue: StoreQueue[int] = StoreQueue(receiver)
    queue.put(1)
    await_blocked(RateLimiter.acquire)
    assert not queue.stop()
    supervisor.stop("enough")
