"""Restarts: onStop, a delay, onStart; with the numbers of Spark's ReceiverSuite."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import ReceiverRefusedError
from penstock.receive.messages import DeregisterReceiver, RegisterReceiver, ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import FakeDriver, Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]

CYCLE = ["onStop", "DeregisterReceiver", "RegisterReceiver", "onStart"]


def boom() -> None:
    raise RuntimeError("boom")


def announced_delays(log: EventLog) -> list[int]:
    """The delays reported to the driver."""
    said = (
        re.match(r"Restarting receiver with delay (\d+) ms: ", received.message)
        for received in log.of(DeregisterReceiver)
    )
    return [int(match[1]) for match in said if match]


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
    assert log.of(DeregisterReceiver) == [
        DeregisterReceiver(3, 7, "Restarting receiver with delay 100 ms: restarting", "")
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


def test_a_receiver_can_restart_itself_in_onStart(
    supervise: Supervise, receiver: Noting, log: EventLog, clock: ManualClock
) -> None:
    # As Spark's socket receiver does when it cannot connect.
    tries = 0

    def connect() -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            receiver.restart("cannot connect", None, 0)

    receiver.on_start = connect
    supervise(receiver).start()
    log.await_count("onStart", 4)
    assert log.names == ["RegisterReceiver", "onStart", *CYCLE, *CYCLE, *CYCLE]
    assert receiver.isStarted()


def test_delays_double_while_nothing_is_stored_in_between(
    supervise: Supervise, receiver: Noting, log: EventLog, clock: ManualClock
) -> None:
    supervise(receiver, {"spark.streaming.receiverRestartDelay": "1000"}).start()

    def restart(count: int) -> None:
        for _ in range(count):
            starts = log.names.count("onStart")
            receiver.restart("again")
            log.await_count(DeregisterReceiver, starts)
            clock.await_waiters(2)
            clock.advance(30_000)
            log.await_count("onStart", starts + 1)

    restart(7)
    for delay, nominal in zip(announced_delays(log), (1000, 2000, 4000, 8000, 16_000, 30_000, 30_000), strict=True):
        assert nominal / 2 <= delay <= nominal
    receiver.store_all(["it works"])
    restart(1)
    assert 500 <= announced_delays(log)[-1] <= 1000


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


def test_a_stop_ends_the_wait_of_a_restart(
    supervise: Supervise, receiver: Noting, log: EventLog, clock: ManualClock
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    receiver.store("buffered")
    receiver.restart("again", None, 3_600_000)
    clock.await_waiters(2)
    supervisor.stop("enough")
    supervisor.await_termination()
    clock.advance(3_600_000)
    assert log.names == [
        "RegisterReceiver",
        "onStart",
        "onStop",
        "AddBlocks",
        "DeregisterReceiver",
        "DeregisterReceiver",
    ]


def test_after_a_stop_there_is_no_restart(supervise: Supervise, receiver: Noting, log: EventLog) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.stop("enough")
    entries = list(log.entries)
    receiver.restart("too late", None, 0)
    assert log.entries == entries
    assert receiver.isStopped()


def test_a_driver_that_refuses_at_the_restart_ends_the_receiver(
    supervise: Supervise, receiver: Noting, log: EventLog, driver: FakeDriver
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    driver.refuse_receiver = "a newer one has its place"
    receiver.restart("again", None, 0)
    with pytest.raises(ReceiverRefusedError, match="a newer one has its place"):
        supervisor.await_termination()
    assert log.names.count("onStart") == 1


def test_error_of_onStop_does_not_prevent_the_restart(supervise: Supervise, receiver: Noting, log: EventLog) -> None:
    supervise(receiver).start()
    receiver.on_stop = boom
    receiver.restart("again", None, 0)
    log.await_count("onStart", 2)
    assert [reported.message for reported in log.of(ReportError)] == ["onStop failed - RuntimeError: boom"]


def test_an_onStart_that_raises_at_the_restart_ends_the_receiver(
    supervise: Supervise, receiver: Noting, log: EventLog
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    receiver.on_start = boom
    receiver.restart("again", None, 0)
    with pytest.raises(RuntimeError, match="boom"):
        supervisor.await_termination()


def test_each_start_registers_again_for_the_same_launch(supervise: Supervise, receiver: Noting, log: EventLog) -> None:
    supervise(receiver).start()
    receiver.restart("again", None, 0)
    log.await_count("onStart", 2)
    assert log.of(RegisterReceiver) == [RegisterReceiver(3, 7, "Noting", 4711)] * 2
