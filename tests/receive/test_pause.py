"""A pause holds every form of store until the driver resumes the receiver; a stop ends the wait."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.helpers import await_blocked, wait_for

from penstock.errors import ReceiverStoppedError
from penstock.receive.messages import UpdateRateLimit
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.receive.conftest import FakeDriver, Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]

STORES: dict[str, Callable[[Noting], object]] = {
    "store": lambda receiver: receiver.store("a"),
    "store_all": lambda receiver: receiver.store_all(["a"]),
    "store_arrow": lambda receiver: receiver.store_arrow(pa.table({"value": ["a"]})),
}

forms = pytest.mark.parametrize("form", STORES)
limits = pytest.mark.parametrize("conf", [{}, {"spark.streaming.receiver.maxRate": "1000"}], ids=["free", "limited"])


@forms
@limits
def test_pause_holds_every_form_of_store_until_resume(
    supervise: Supervise,
    receiver: Noting,
    records: Callable[[], list[Any]],
    background: Background,
    drive: Callable[[Future[Any]], Any],
    clock: ManualClock,
    form: str,
    conf: dict[str, str],
) -> None:
    supervisor = supervise(receiver, conf)
    supervisor.start()
    supervisor.take(UpdateRateLimit(0.0, 1, True))
    storing = background(lambda: STORES[form](receiver))
    await_blocked(RateLimiter.acquire)
    # However long it takes.
    for _ in range(10):
        clock.advance(1000)
    await_blocked(RateLimiter.acquire)
    assert records() == []
    supervisor.take(UpdateRateLimit(0.0, 1))
    drive(storing)
    supervisor.stop("done")
    assert records() == ["a"]


@forms
@limits
def test_a_stop_ends_the_wait_and_nothing_was_stored(
    supervise: Supervise,
    receiver: Noting,
    records: Callable[[], list[Any]],
    background: Background,
    form: str,
    conf: dict[str, str],
) -> None:
    supervisor = supervise(receiver, conf)
    supervisor.start()
    supervisor.take(UpdateRateLimit(0.0, 1, True))
    storing = background(lambda: STORES[form](receiver))
    await_blocked(RateLimiter.acquire)
    supervisor.stop("enough")
    with pytest.raises(ReceiverStoppedError):
        storing.result(timeout=10)
    assert records() == []


def test_records_stored_before_a_pause_are_reported_during_it(
    supervise: Supervise, receiver: Noting, records: Callable[[], list[Any]], clock: ManualClock
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    receiver.store("a")
    supervisor.take(UpdateRateLimit(0.0, 1, True))
    clock.await_waiters()
    clock.advance(1000)
    wait_for(records, "the record of before the pause")
    assert records() == ["a"]


def test_records_stored_in_onStop_are_accepted_during_a_pause(
    supervise: Supervise, receiver: Noting, records: Callable[[], list[Any]]
) -> None:
    # The last records of a receiver's own buffer: the graceful stop processes them.
    receiver.on_stop = lambda: receiver.store_all(["last"])
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.take(UpdateRateLimit(0.0, 1, True))
    supervisor.stop("enough")
    assert records() == ["last"]


def test_receiver_registering_during_a_pause_is_paused(
    supervise: Supervise, receiver: Noting, driver: FakeDriver, background: Background
) -> None:
    driver.paused = True
    supervisor = supervise(receiver)
    supervisor.start()
    storing = background(lambda: receiver.store_all(["a"]))
    await_blocked(RateLimiter.acquire)
    supervisor.take(UpdateRateLimit(0.0, 1))
    storing.result(timeout=10)


def test_pause_survives_a_restart(
    supervise: Supervise, receiver: Noting, driver: FakeDriver, clock: ManualClock, background: Background, log: Any
) -> None:
    supervisor = supervise(receiver, {"spark.streaming.receiverRestartDelay": "100"})
    supervisor.start()
    driver.paused = True
    supervisor.take(UpdateRateLimit(0.0, 1, True))
    supervisor.restart("again")
    clock.await_waiters(2)
    clock.advance(1000)
    log.await_count("onStart", 2)
    storing = background(lambda: receiver.store_all(["a"]))
    await_blocked(RateLimiter.acquire)
    supervisor.take(UpdateRateLimit(0.0, 1))
    storing.result(timeout=10)


# -- the limiter --


def test_pause_earns_no_permits_and_keeps_the_queue(clock: ManualClock) -> None:
    limiter = RateLimiter(clock, rate=10, burst_ms=100)
    limiter.acquire(1)
    order: list[int] = []

    def acquire(n: int) -> None:
        limiter.acquire(1)
        order.append(n)

    with ThreadPoolExecutor() as pool:
        waiting = []
        for n in range(3):
            waiting.append(pool.submit(acquire, n))
            clock.await_waiters(n + 1)
        clock.advance(50)
        limiter.pause(True)
        clock.advance(60_000)
        assert order == []
        limiter.pause(False)
        # A tenth of a second each, half of one was over.
        for n, duration_ms in enumerate((50, 100, 100)):
            clock.await_waiters(3 - n)
            clock.advance(duration_ms - 1)
            assert order == list(range(n))
            clock.await_waiters(3 - n)
            clock.advance(1)
            waiting[n].result(timeout=10)
    assert order == [0, 1, 2]


@pytest.mark.parametrize("rate", [5.0, None])
def test_a_new_rate_does_not_end_a_pause(clock: ManualClock, rate: float | None) -> None:
    limiter = RateLimiter(clock, rate=None, burst_ms=200)
    limiter.pause(True)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(limiter.acquire, 1)
        clock.await_waiters()
        limiter.update(rate)
        clock.advance(10_000)
        # The call that changes the limiter grants the permits; no public name shows who waits.
        assert [request.granted for request in limiter._requests] == [None]
        limiter.pause(False)
        assert waiting.result(timeout=10) == 1


def test_unlimited_limiter_passes_all_waiting_callers_on_resume(clock: ManualClock) -> None:
    limiter = RateLimiter(clock, rate=None, burst_ms=200)
    limiter.pause(True)
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(limiter.acquire, count) for count in (1, 100_000)]
        clock.await_waiters(2)
        limiter.pause(False)
        assert [future.result(timeout=10) for future in waiting] == [1, 100_000]
    assert limiter.acquire(7) == 7
