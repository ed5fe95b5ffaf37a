"""``AsyncReceiver``: runs ``receive`` on an event loop; a stop cancels it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock import AsyncReceiver
from penstock.receive.messages import ReportError, UpdateRateLimit
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog, Gate

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


class Scripted(AsyncReceiver[Any]):
    """Runs one function in each run of ``receive``."""

    def __init__(self, log: EventLog, *runs: Callable[[Scripted], Awaitable[object]]) -> None:
        self._log = log
        self._runs = list(runs)

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


def test_receive_that_returns_ends_the_source(
    supervise: Supervise, log: EventLog, records: Callable[[], list[Any]]
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


def test_stop_cancels_receive(supervise: Supervise, log: EventLog, background: Background) -> None:
    supervisor = supervise(Scripted(log, forever))
    supervisor.start()
    log.await_count("receive")
    background(lambda: supervisor.stop("enough")).result(timeout=30)
    assert log.names == ["RegisterReceiver", "receive", "cancelled", "DeregisterReceiver"]


def test_error_of_receive_restarts_the_receiver(supervise: Supervise, log: EventLog, clock: ManualClock) -> None:
    supervise(Scripted(log, fail, forever)).start()
    log.await_count(ReportError)
    assert "OSError: reset by peer" in log.of(ReportError)[0].error
    clock.await_waiters(2)
    clock.advance(30_000)
    log.await_count("receive", 2)


def test_cancellation_without_a_stop_restarts_the_receiver(
    supervise: Supervise, log: EventLog, clock: ManualClock
) -> None:
    async def cancel(_receiver: Scripted) -> None:
        raise asyncio.CancelledError

    supervise(Scripted(log, cancel, forever)).start()
    log.await_count(ReportError)
    clock.await_waiters(2)
    clock.advance(30_000)
    log.await_count("receive", 2)


def test_after_a_restart_it_can_be_cancelled_again(supervise: Supervise, log: EventLog, background: Background) -> None:
    receiver = Scripted(log, forever, forever)
    supervisor = supervise(receiver)
    supervisor.start()
    log.await_count("receive")
    receiver.restart("again", None, 0)
    log.await_count("receive", 2)
    background(lambda: supervisor.stop("enough")).result(timeout=30)
    assert log.names.count("cancelled") == 2


def test_cancelled_receive_may_store_its_last_records(
    supervise: Supervise, log: EventLog, records: Callable[[], list[Any]]
) -> None:
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


def test_stop_before_the_loop_runs_prevents_receive(
    supervise: Supervise, log: EventLog, gate: Gate, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = asyncio.run

    def run_late(main: Coroutine[Any, Any, None]) -> None:
        gate()
        run(main)

    monkeypatch.setattr(asyncio, "run", run_late)
    receiver = Scripted(log, forever)
    supervisor = supervise(receiver)
    supervisor.start()
    assert gate.reached.wait(10)
    stopping = background(lambda: supervisor.stop("at once"))
    assert receiver.wait(10)
    gate.open()
    stopping.result(timeout=10)
    assert log.names == ["RegisterReceiver", "DeregisterReceiver"]


@pytest.mark.parametrize(
    "astore",
    [
        lambda receiver: receiver.astore("a"),
        lambda receiver: receiver.astore_all(["a"]),
        lambda receiver: receiver.astore_arrow(pa.table({"value": ["a"]})),
    ],
    ids=["astore", "astore_all", "astore_arrow"],
)
def test_awaited_store_does_not_block_the_event_loop(
    supervise: Supervise,
    log: EventLog,
    clock: ManualClock,
    records: Callable[[], list[Any]],
    astore: Callable[[Scripted], Awaitable[None]],
) -> None:
    async def receive(receiver: Scripted) -> None:
        storing = asyncio.ensure_future(astore(receiver))
        # The block timer and the store, which the pause holds.
        await asyncio.to_thread(clock.await_waiters, 2)
        log.add("loop runs")
        supervisor.take(UpdateRateLimit(0.0, 2))
        await storing

    supervisor = supervise(Scripted(log, receive))
    supervisor.take(UpdateRateLimit(0.0, 1, True))
    supervisor.start()
    log.await_count("returned")
    supervisor.stop("enough")
    assert "loop runs" in log.names
    assert records() == ["a"]


def test_awaited_store_raises_what_store_raises(supervise: Supervise, log: EventLog) -> None:
    async def receive(receiver: Scripted) -> None:
        await receiver.astore_all([1], metadata={"not JSON": object()})

    supervise(Scripted(log, receive, forever)).start()
    log.await_count(ReportError)
    assert "StoreError: the metadata is not JSON" in log.of(ReportError)[0].error


def test_receive_must_be_written() -> None:
    class Forgot(AsyncReceiver[str]):
        pass

    with pytest.raises(TypeError, match=r"Forgot.*receive"):
        Forgot()  # type: ignore[abstract]  # that is the point
