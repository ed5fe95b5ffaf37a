"""Restarts: onStop, a delay, onStart; with the numbers of Spark's ReceiverSuite."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.receive.messages import DeregisterReceiver, RegisterReceiver, ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import Noting

Supervise = Callable[..., ReceiverSupervisor]

CYCLE = ["onStop", "DeregisterReceiver", "RegisterReceiver", "onStart"]


def boom() -> None:
    raise RuntimeError("boom")


def test_a_restart_stops_waits_and_starts(
    supervise: Supervise, receiver: Noting, log: EventLog, clock: ManualClock
) -> None:
    supervise(receiver).start()
    receiver.restart("restarting", None, 100)
    log.await_count(DeregisterReceiver)
    # The timer of the blocks, and the restart.
    clock.await_waiters(2)
    assert (receiver.isStarted(), receiver.isStopped()) == (False, True)
    assert log.names == ["RegisterReceiver", "onStart", "onStop", "DeregisterReceiver"]
    clock.advance(99)
    clock.await_waiters(2)
    assert log.names.count("onStart") == 1
    clock.advance(1)
    log.await_count("onStart", 2)
    assert (receiver.isStarted(), receiver.isStopped()) == (True, False)
    assert log.names == ["RegisterReceiver", "onStart", *CYCLE]
    assert log.of(RegisterReceiver) == [RegisterReceiver(3, 7, "Noting", 4711)] * 2
    assert log.of(DeregisterReceiver) == [
        DeregisterReceiver(3, 7, "Restarting receiver with delay 100 ms: restarting", "", restart_delay_ms=100)
    ]


def test_error_of_a_restart_is_reported(
    supervise: Supervise, receiver: Noting, log: EventLog, clock: ManualClock
) -> None:
    supervise(receiver).start()
    receiver.restart("connection lost", OSError("reset by peer"), 0)
    log.await_count("onStart", 2)
    (reported,) = log.of(ReportError)
    assert reported.message == "connection lost - OSError: reset by peer"
    assert "OSError: reset by peer" in reported.error
    (received,) = log.of(DeregisterReceiver)
    assert "OSError: reset by peer" in received.error
    assert log.names == ["RegisterReceiver", "onStart", "ReportError", *CYCLE]


def test_a_restart_returns_at_once_and_further_ones_are_ignored_until_it_is_done(
    supervise: Supervise, receiver: Noting, log: EventLog, clock: ManualClock
) -> None:
    supervise(receiver).start()
    for n in range(5):
        receiver.restart(f"restart {n}", None, 100)
    log.await_count(DeregisterReceiver)
    receiver.restart("while it waits", None, 0)
    clock.await_waiters(2)
    clock.advance(100)
    log.await_count("onStart", 2)
    assert log.names == ["RegisterReceiver", "onStart", *CYCLE]
    receiver.restart("later", None, 0)
    log.await_count("onStart", 3)
    assert [received.message.partition(": ")[2] for received in log.of(DeregisterReceiver)] == ["restart 0", "later"]


def test_records_buffered_before_a_restart_are_stored(
    supervise: Supervise, receiver: Noting, log: EventLog, records: Callable[[], list[Any]]
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    receiver.store("before")
    receiver.restart("again", None, 0)
    log.await_count("onStart", 2)
    receiver.store("after")
    supervisor.stop("enough")
    assert records() == ["before", "after"]
