"""An ``onStart`` that does not return is reported, and ends the receiver unless it stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.errors import ReceiverStoppedError, ReceiverStuckError
from penstock.receive.messages import DeregisterReceiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog, Gate
    from tests.receive.conftest import Noting

Supervise = Callable[..., ReceiverSupervisor]
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
