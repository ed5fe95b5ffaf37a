"""A store that waits for long on a client's thread is logged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.helpers import await_blocked

from penstock import AsyncReceiver, ThreadReceiver
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.receive.receiver_threads import WaitingStores
from penstock.receive.store_timer import StoreTimer
from penstock_testing import ManualClock

Supervise = Callable[..., ReceiverSupervisor]
CONF = {"spark.streaming.receiver.maxRate": "0.01", "spark.streaming.blockInterval": "1s"}
EVENT = "store blocks a client's thread"


def on_client_thread(function: Callable[[], object]) -> threading.Thread:
    """Call a function on a thread whose code is neither the engine's nor the test's, as a client library does."""
    names: dict[str, Any] = {"__name__": "some_client.loop"}
    exec("def loop(call):\n    call()", names)
    thread = threading.Thread(target=names["loop"], args=(function,), name="client loop", daemon=True)
    thread.start()
    return thread


def pass_time(clock: ManualClock, seconds: int, num_stores: int = 1) -> None:
    """Tick by tick: the timer of the blocks waits on the clock, and each store that waits."""
    for _ in range(seconds):
        clock.await_waiters(1 + num_stores)
        clock.advance(1000)
    clock.await_waiters(1 + num_stores)


def store_two(receiver: Any) -> None:
    receiver.store(1)
    receiver.store(2)


def test_store_that_holds_a_clients_thread_is_logged_once(
    supervise: Supervise, receiver: Any, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = supervise(receiver, CONF)
    supervisor.start()
    threads = [on_client_thread(lambda: contained(store_two, receiver)) for _ in range(2)]
    await_blocked(RateLimiter.acquire, 2)
    pass_time(clock, 4, num_stores=2)
    assert EVENT not in caplog.text
    pass_time(clock, 20, num_stores=2)
    supervisor.stop("enough")
    for thread in threads:
        thread.join(10)
    assert caplog.text.count(EVENT) == 1
    assert "put a queue between the client and store" in caplog.text
    assert "stream_id=3" in caplog.text


def contained(function: Callable[[Any], object], receiver: Any) -> None:
    from penstock import ReceiverStoppedError

    try:
        function(receiver)
    except ReceiverStoppedError:
        """It was stopped."""


class OnThread(ThreadReceiver[int]):
    def receive(self) -> None:
        store_two(self)


class OnEventLoop(AsyncReceiver[int]):
    async def receive(self) -> None:
        store_two(self)


class Awaiting(AsyncReceiver[int]):
    async def receive(self) -> None:
        await asyncio.gather(self.astore(1), self.astore(2))


@pytest.mark.parametrize(("kind", "logged"), [(OnThread, 0), (OnEventLoop, 1), (Awaiting, 0)])
def test_store_in_receive_is_logged_if_it_holds_an_event_loop(
    supervise: Supervise,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    kind: type[ThreadReceiver[int] | AsyncReceiver[int]],
    logged: int,
) -> None:
    supervisor = supervise(kind(), CONF)
    supervisor.start()
    await_blocked(RateLimiter.acquire)
    pass_time(clock, 20)
    supervisor.stop("enough")
    assert caplog.text.count(EVENT) == logged


def test_thread_of_the_receivers_own_module_may_wait(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    timer = StoreTimer(clock)
    stores = WaitingStores(timer, __name__, 3)

    def read() -> None:
        with timer.waiting("limiter"):
            clock.advance(60_000)
            stores.check()

    thread = threading.Thread(target=read)
    thread.start()
    thread.join(10)
    assert EVENT not in caplog.text


def test_short_wait_is_not_logged(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    timer = StoreTimer(clock)
    stores = WaitingStores(timer, "elsewhere", 3)

    def read() -> None:
        with timer.waiting("limiter"):
            clock.advance(4999)
            stores.check()

    on_client_thread(read).join(10)
    clock.advance(60_000)
    stores.check()
    assert EVENT not in caplog.text
