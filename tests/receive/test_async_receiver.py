"""``AsyncReceiver``: runs ``receive`` on an event loop; a stop cancels it."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.helpers import EventLog, Gate

from penstock import AsyncReceiver
from penstock.receive import thread_receiver
from penstock.receive.messages import ReportError, UpdateRateLimit
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.receive.conftest import FakeStore

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


class Scripted(AsyncReceiver[Any]):
    """Runs one function in each run of ``receive``."""

    def __init__(self, log: EventLog, *runs: Callable[[Scripted], Awaitable[object]]) -> None:
        self.add = log.add
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


def test_error_is_reported_with_the_line_of_the_receiver(supervise: Supervise, log: EventLog) -> None:
    async def wait(_receiver: Scripted) -> None:
        # Raised below, in asyncio, and without a text.
        await asyncio.wait_for(asyncio.Event().wait(), 0.001)

    supervise(Scripted(log, wait)).start()
    log.await_count(ReportError)
    pattern = r"Error receiving data: TimeoutError \(test_async_receiver\.py:\d+ in wait\)"
    assert re.fullmatch(pattern, log.of(ReportError)[0].message)


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


@pytest.fixture
def stop_during_store(
    supervise: Supervise, store: FakeStore, gate: Gate, background: Background
) -> Callable[[Scripted], Future[Any]]:
    """Starts a receiver, and stops it while the gate holds its store. Returns the call of ``stop``."""

    def stop_during_store(receiver: Scripted) -> Future[Any]:
        store.on_store = gate
        supervisor = supervise(receiver)
        supervisor.start()
        assert gate.reached.wait(10)
        stopping = background(lambda: supervisor.stop("enough"))
        assert receiver.wait(10)
        return stopping

    return stop_during_store


async def store_and_acknowledge(receiver: Scripted) -> None:
    await receiver.astore_all([1, 2])
    # As with a client that sends the acknowledgement.
    await asyncio.sleep(0)
    receiver.add("acknowledged")


def test_stop_during_an_awaited_store_lets_it_be_acknowledged(
    stop_during_store: Callable[[Scripted], Future[Any]],
    log: EventLog,
    gate: Gate,
    records: Callable[[], list[Any]],
) -> None:
    async def receive(receiver: Scripted) -> None:
        while not receiver.isStopped():
            await store_and_acknowledge(receiver)

    stopping = stop_during_store(Scripted(log, receive))
    gate.open()
    stopping.result(timeout=30)
    assert log.names == ["RegisterReceiver", "receive", "AddBlocks", "acknowledged", "returned", "DeregisterReceiver"]
    assert records() == [1, 2]


def test_receiver_that_waits_for_more_is_cancelled_after_the_time_to_acknowledge(
    stop_during_store: Callable[[Scripted], Future[Any]], log: EventLog, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def receive(receiver: Scripted) -> None:
        await store_and_acknowledge(receiver)
        await forever(receiver)

    monkeypatch.setattr(thread_receiver, "_ACKNOWLEDGE_S", 0.05)
    stopping = stop_during_store(Scripted(log, receive))
    gate.open()
    stopping.result(timeout=30)
    assert log.names[2:] == ["AddBlocks", "acknowledged", "cancelled", "DeregisterReceiver"]


def test_store_that_follows_the_stop_is_acknowledged_as_well(
    stop_during_store: Callable[[Scripted], Future[Any]],
    log: EventLog,
    gate: Gate,
    store: FakeStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def receive(receiver: Scripted) -> None:
        await store_and_acknowledge(receiver)
        store.on_store = second
        # After the time to acknowledge the first.
        asyncio.get_running_loop().call_later(0.04, second.open)
        await store_and_acknowledge(receiver)
        await forever(receiver)

    second = Gate()
    monkeypatch.setattr(thread_receiver, "_ACKNOWLEDGE_S", 0.01)
    stopping = stop_during_store(Scripted(log, receive))
    gate.open()
    stopping.result(timeout=30)
    assert log.names.count("acknowledged") == 2


def test_awaited_store_that_the_receiver_itself_abandons_delays_no_stop(
    stop_during_store: Callable[[Scripted], Future[Any]], log: EventLog, gate: Gate
) -> None:
    async def receive(receiver: Scripted) -> None:
        storing = asyncio.ensure_future(receiver.astore_all([1]))
        await asyncio.to_thread(gate.reached.wait, 10)
        storing.cancel()
        await forever(receiver)

    stopping = stop_during_store(Scripted(log, receive))
    log.await_count("cancelled")
    gate.open()
    stopping.result(timeout=30)


def test_stop_while_the_event_loop_closes_leaves_no_task_behind(
    supervise: Supervise, log: EventLog, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    shut_down = asyncio.BaseEventLoop.shutdown_default_executor

    async def shut_down_and_stop(loop: asyncio.BaseEventLoop) -> None:
        await shut_down(loop)
        # The loop runs once more.
        receiver.onStop()
        log.add("stopped")

    async def receive(receiver: Scripted) -> None:
        receiver.source_ended()

    receiver = Scripted(log, receive)
    monkeypatch.setattr(thread_receiver, "_JOIN_S", 0.0)
    monkeypatch.setattr(asyncio.BaseEventLoop, "shutdown_default_executor", shut_down_and_stop)
    supervisor = supervise(receiver)
    supervisor.start()
    log.await_count("stopped")
    supervisor.stop("enough")
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


def test_receive_must_be_written() -> None:
    class Forgot(AsyncReceiver[str]):
        pass

    with pytest.raises(TypeError, match=r"Forgot.*receive"):
        Forgot()  # type: ignore[abstract]  # that is the point
