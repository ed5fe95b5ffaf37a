"""An ``onStart`` that does not return is reported, and ends the receiver unless it stores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import ReceiverStoppedError, ReceiverStuckError
from penstock.receive.messages import DeregisterReceiver, ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog, Gate
    from tests.receive.conftest import Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]
CONF = {"spark.penstock.receiver.startTimeout": "5s", "spark.streaming.blockInterval": "1s"}


def pass_time(clock: ManualClock, seconds: int) -> None:
    """Tick by tick."""
    for _ in range(seconds):
        clock.await_waiters()
        clock.advance(1000)
    clock.await_waiters()


def test_onStart_that_hangs_ends_the_receiver_with_an_error(
    supervise: Supervise, receiver: Noting, log: EventLog, gate: Gate, clock: ManualClock
) -> None:
    supervisor = supervise(receiver, CONF)
    receiver.on_start = gate
    supervisor.start_soon()
    assert gate.reached.wait(10)
    pass_time(clock, 4)
    assert log.names == ["RegisterReceiver", "onStart"]
    clock.advance(1000)
    with pytest.raises(ReceiverStuckError, match="onStart has not returned for 5 s"):
        supervisor.await_termination()
    (received,) = log.of(DeregisterReceiver)
    assert received.message == (
        "onStart has not returned for 5 s (spark.penstock.receiver.startTimeout); it must only start what receives"
    )
    assert "ReceiverStuckError" in received.error
    with pytest.raises(ReceiverStoppedError):
        receiver.store(1)
    gate.open()
    supervisor.stop("too late")
    assert "onStop" not in log.entries


def test_stop_during_a_hanging_onStart_ends_the_receiver(
    supervise: Supervise, receiver: Noting, log: EventLog, gate: Gate, clock: ManualClock
) -> None:
    supervisor = supervise(receiver, CONF)
    receiver.on_start = gate
    supervisor.start_soon()
    assert gate.reached.wait(10)
    supervisor.stop_soon("Stopped by driver")
    pass_time(clock, 4)
    clock.advance(1000)
    with pytest.raises(ReceiverStuckError):
        supervisor.await_termination()
    gate.open()


def test_onStart_that_stores_is_reported_once_and_continues(
    supervise: Supervise, receiver: Noting, log: EventLog, gate: Gate, clock: ManualClock
) -> None:
    def receive() -> None:
        receiver.store_all([1, 2, 3])
        gate()

    supervisor = supervise(receiver, CONF)
    receiver.on_start = receive
    supervisor.start_soon()
    assert gate.reached.wait(10)
    pass_time(clock, 20)
    log.await_count(ReportError)
    assert [received.message for received in log.of(ReportError)] == [
        "onStart has not returned for 5 s (spark.penstock.receiver.startTimeout); it must only start what receives: "
        "derive from ThreadReceiver, or start a thread"
    ]
    assert receiver.isStarted()
    gate.open()
    supervisor.stop("enough")
    assert log.names[-2:] == ["onStop", "DeregisterReceiver"]


@pytest.mark.parametrize("conf", [{}, {"spark.penstock.receiver.startTimeout": "0"}], ids=["in time", "no limit"])
def test_onStart_that_returns_in_time_is_no_error(
    supervise: Supervise, receiver: Noting, log: EventLog, gate: Gate, clock: ManualClock, conf: dict[str, str]
) -> None:
    supervisor = supervise(receiver, {"spark.streaming.blockInterval": "1s"} | conf)
    receiver.on_start = gate
    supervisor.start_soon()
    assert gate.reached.wait(10)
    pass_time(clock, 50)
    gate.open()
    supervisor.stop("enough")
    assert log.names == ["RegisterReceiver", "onStart", "onStop", "DeregisterReceiver"]


def test_exit_of_a_thread_ends_the_receiver(supervise: Supervise, receiver: Noting) -> None:
    class Unusual(BaseException):
        """Neither an Exception nor SystemExit."""

    def fail() -> None:
        raise Unusual("odd")

    supervisor = supervise(receiver)
    receiver.on_start = fail
    supervisor.start_soon()
    with pytest.raises(Unusual):
        supervisor.await_termination()
