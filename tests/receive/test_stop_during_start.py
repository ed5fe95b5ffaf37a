"""A stop or a restart that comes while ``onStart`` runs makes it end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import wait_for

from penstock.errors import ReceiverStoppedError, ReceiverStuckError
from penstock.receive.messages import DeregisterReceiver, ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.receive.running_receiver import Registering, Stop
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog, Gate
    from tests.receive.conftest import Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


def store_forever(receiver: Noting, log: EventLog, store: Callable[[], object]) -> Callable[[], None]:
    """An ``onStart`` that receives, which it should not."""

    def on_start() -> None:
        store()
        log.add("stores")
        while not receiver.isStopped():
            store()

    return on_start


@pytest.mark.parametrize("form", ["store", "store_all"])
def test_store_loop_in_onStart_ends_with_a_stop(
    supervise: Supervise, receiver: Noting, log: EventLog, background: Background, form: str
) -> None:
    supervisor = supervise(receiver, {"spark.penstock.receiver.maxBufferedRecords": "1000000000"})
    receiver.on_start = store_forever(
        receiver, log, (lambda: receiver.store(1)) if form == "store" else lambda: receiver.store_all([1])
    )
    supervisor.start_soon()
    log.await_count("stores")
    background(lambda: supervisor.stop("enough")).result(timeout=10)
    supervisor.await_termination()
    assert log.of(ReportError) == []
    assert log.names[-2:] != ["onStop", "onStop"]
    assert log.names.count("onStop") == 1
    (ended,) = log.of(DeregisterReceiver)
    assert (ended.message, ended.error, ended.dropped) == ("enough", "", 0)


@pytest.mark.parametrize("conf", [{}, {"spark.streaming.receiver.maxRate": "1"}], ids=["no limit", "limit"])
def test_store_in_onStart_raises_after_a_stop(
    supervise: Supervise, receiver: Noting, log: EventLog, background: Background, conf: dict[str, str]
) -> None:
    raised: list[BaseException] = []

    def on_start() -> None:
        log.add("stores")
        try:
            while True:
                receiver.store(1)
        except ReceiverStoppedError as error:
            raised.append(error)
            raise

    supervisor = supervise(receiver, conf)
    receiver.on_start = on_start
    supervisor.start_soon()
    log.await_count("stores")
    background(lambda: supervisor.stop("enough")).result(timeout=10)
    supervisor.await_termination()
    assert len(raised) == 1
    assert log.of(ReportError) == []


def test_onStop_may_store_after_an_interrupted_onStart(
    supervise: Supervise, receiver: Noting, log: EventLog, records: Callable[[], list[Any]], background: Background
) -> None:
    supervisor = supervise(receiver)
    receiver.on_start = store_forever(receiver, log, lambda: None)
    receiver.on_stop = lambda: receiver.store("last")
    supervisor.start_soon()
    log.await_count("stores")
    background(lambda: supervisor.stop("enough")).result(timeout=10)
    assert records() == ["last"]


def test_restart_interrupts_onStart_which_runs_again(supervise: Supervise, receiver: Noting, log: EventLog) -> None:
    supervisor = supervise(receiver)
    receiver.on_start = store_forever(receiver, log, lambda: receiver.store_all([1]))
    supervisor.start_soon()
    log.await_count("stores")
    receiver.restart("again", None, 0)
    log.await_count("stores", 2)
    assert not receiver.isStopped()
    supervisor.stop("enough")
    assert [name for name in log.names if name.startswith("on")] == ["onStart", "onStop"] * 2


def test_stop_before_onStart_prevents_it(
    supervise: Supervise, receiver: Noting, log: EventLog, driver: Any, gate: Gate, background: Background
) -> None:
    driver.on_message = lambda message: gate() if type(message).__name__ == "RegisterReceiver" else None
    supervisor = supervise(receiver)
    supervisor.start_soon()
    assert gate.reached.wait(10)
    stopping = background(lambda: supervisor.stop("enough"))
    wait_for(lambda: supervisor.state.state == Registering(Stop("enough")), "the stop is requested")
    gate.open()
    stopping.result(timeout=10)
    supervisor.await_termination()
    assert log.names == ["RegisterReceiver", "DeregisterReceiver"]


def test_onStart_that_ignores_a_stop_is_abandoned(
    supervise: Supervise, receiver: Noting, log: EventLog, gate: Gate, clock: ManualClock, background: Background
) -> None:
    supervisor = supervise(receiver, {"spark.penstock.receiver.stopTimeout": "3s"})
    receiver.on_start = gate
    supervisor.start_soon()
    assert gate.reached.wait(10)
    stopping = [background(lambda: supervisor.stop("Stopped by driver")) for _ in range(2)]
    # The timer of the blocks and both stops.
    clock.await_waiters(3)
    clock.advance(3000)
    for each in stopping:
        each.result(timeout=10)
    with pytest.raises(
        ReceiverStuckError, match=r"^onStart has not returned for 3 s after a stop \(.*receiver\.stopTimeout\); it must"
    ):
        supervisor.await_termination()
    gate.open()
    assert len(log.of(DeregisterReceiver)) == 1
    assert "onStop" not in log.names
