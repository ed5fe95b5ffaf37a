"""``AsyncReceiver``: an event loop; stopping cancels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock import AsyncReceiver
from penstock.receive.messages import ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.runtime.clock import ManualClock

if TYPE_CHECKING:
    from tests.receive.conftest import Log

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


class Scripted(AsyncReceiver[Any]):
    """Does what it is told with each run of ``receive``."""

    def __init__(self, log: Log, *runs: Callable[[Scripted], Awaitable[object]]) -> None:
        self._log, self._runs = log, list(runs)

    async def receive(self) -> None:
        self._log.add("receive")
        try:
            if self._runs:
                await self._runs.pop(0)(self)
        except asyncio.CancelledError:
            self._log.add("cancelled")
            raise
        self._log.add("returned")


async def forever(_receiver: Scripted) -> None:
    await asyncio.Event().wait()


async def fail(_receiver: Scripted) -> None:
    await asyncio.sleep(0)
    raise OSError("reset by peer")


def test_a_receive_that_returns_is_the_end_of_the_source(
    supervise: Supervise, log: Log, records: Callable[[], list[Any]]
) -> None:
    async def store(receiver: Scripted) -> None:
        await asyncio.to_thread(receiver.store_all, [1, 2])
        receiver.store_all([3])

    receiver = Scripted(log, store)
    supervisor = supervise(receiver)
    supervisor.start()
    log.await_count("returned")
    assert receiver.isStarted()
    supervisor.stop("enough")
    supervisor.await_termination()
    assert records() == [1, 2, 3]
    assert log.of(ReportError) == []


def test_stop_cancels_it(supervise: Supervise, log: Log, background: Background) -> None:
    supervisor = supervise(Scripted(log, forever))
    supervisor.start()
    log.await_count("receive")
    background(lambda: supervisor.stop("enough")).result(timeout=5)
    assert log.names == ["RegisterReceiver", "receive", "cancelled", "DeregisterReceiver"]


def test_what_it_raises_restarts_it(supervise: Supervise, log: Log, clock: ManualClock) -> None:
    supervise(Scripted(log, fail, forever)).start()
    log.await_count(ReportError)
    assert "OSError: reset by peer" in log.of(ReportError)[0].error
    clock.await_waiters(2)
    clock.advance(30_000)
    log.await_count("receive", 2)


def test_a_cancellation_that_nobody_asked_for_restarts_it(supervise: Supervise, log: Log, clock: ManualClock) -> None:
    async def cancel(_receiver: Scripted) -> None:
        raise asyncio.CancelledError

    supervise(Scripted(log, cancel, forever)).start()
    log.await_count(ReportError)
    clock.await_waiters(2)
    clock.advance(30_000)
    log.await_count("receive", 2)


def test_after_a_restart_it_can_be_cancelled_again(supervise: Supervise, log: Log, background: Background) -> None:
    receiver = Scripted(log, forever, forever)
    supervisor = supervise(receiver)
    supervisor.start()
    log.await_count("receive")
    receiver.restart("again", None, 0)
    log.await_count("receive", 2)
    background(lambda: supervisor.stop("enough")).result(timeout=5)
    assert log.names.count("cancelled") == 2


def test_it_may_clean_up_when_it_is_cancelled(supervise: Supervise, log: Log, records: Callable[[], list[Any]]) -> None:
    async def drain(receiver: Scripted) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            receiver.store_all(["last"])

    supervisor = supervise(Scripted(log, drain))
    supervisor.start()
    log.await_count("receive")
    supervisor.stop("enough")
    assert records() == ["last"]


def test_stopped_before_its_loop_runs_it_does_not_receive(supervise: Supervise, log: Log) -> None:
    for _ in range(20):
        receiver = Scripted(log, forever)
        supervisor = supervise(receiver)
        supervisor.start()
        supervisor.stop("at once")
        supervisor.await_termination()
        assert log.names.count("receive") == log.names.count("cancelled")
    assert log.of(ReportError) == []


def test_receive_must_be_written() -> None:
    class Forgot(AsyncReceiver[str]):
        pass

    with pytest.raises(TypeError, match=r"Forgot.*receive"):
        Forgot()  # type: ignore[abstract]  # that is the point
