"""An ``onStop`` that does not return holds up neither the stop nor a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import await_blocked

from penstock.errors import ReceiverStuckError
from penstock.receive.messages import DeregisterReceiver, ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.runtime.clock import ManualClock

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.helpers import EventLog, Gate
    from tests.receive.conftest import Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]
CONF = {"spark.penstock.receiver.stopTimeout": "3s", "spark.streaming.blockInterval": "1h"}
SAID = "onStop has not returned for 3 s: does it wake what receives, and that end?"


def test_what_is_buffered_is_stored_and_the_driver_told(
    supervise: Supervise,
    receiver: Noting,
    log: EventLog,
    gate: Gate,
    clock: ManualClock,
    background: Background,
    records: Callable[[], list[Any]],
) -> None:
    supervisor = supervise(receiver, CONF)
    supervisor.start()
    receiver.on_stop = gate
    receiver.store("buffered")
    stopping = background(lambda: supervisor.stop("Stopped by driver"))
    assert gate.reached.wait(10)
    # The timer of the blocks, and who stops.
    clock.await_waiters(2)
    clock.advance(2999)
    clock.await_waiters(2)
    assert log.names == ["RegisterReceiver", "onStart", "onStop"]
    clock.advance(1)
    stopping.result(timeout=10)
    # Its process is not to be used again.
    with pytest.raises(ReceiverStuckError, match="onStop has not returned for 3 s"):
        supervisor.await_termination()
    assert records() == ["buffered"]
    assert log.names[3:] == ["ReportError", "AddBlocks", "DeregisterReceiver"]
    (reported,) = log.of(ReportError)
    assert reported.message == SAID
    assert "ReceiverStuckError" in reported.error
    (told,) = log.of(DeregisterReceiver)
    assert (told.message, told.flushed, told.ended) == ("Stopped by driver", 1, True)


def test_what_it_stops_for_is_the_error_of_the_task(
    supervise: Supervise, receiver: Noting, gate: Gate, clock: ManualClock, background: Background
) -> None:
    supervisor = supervise(receiver, CONF)
    supervisor.start()
    receiver.on_stop = gate
    stopping = background(lambda: supervisor.stop("no use", ValueError("the receiver's own")))
    assert gate.reached.wait(10)
    clock.await_waiters(2)
    clock.advance(3000)
    stopping.result(timeout=10)
    with pytest.raises(ValueError, match="the receiver's own"):
        supervisor.await_termination()


def test_one_that_was_to_restart_is_for_another_process(
    supervise: Supervise, receiver: Noting, log: EventLog, gate: Gate, clock: ManualClock
) -> None:
    supervisor = supervise(receiver, CONF)
    supervisor.start()
    receiver.on_stop = gate
    receiver.restart("connection lost", None, 0)
    assert gate.reached.wait(10)
    # The driver's stop does not wait behind it for ever either.
    supervisor.stop_soon("Stopped by driver")
    clock.await_waiters(2)
    clock.advance(3000)
    log.await_count(DeregisterReceiver)
    assert log.names.count("onStart") == log.names.count("onStop") == 1
    assert [each.message for each in log.of(ReportError)] == [SAID]
    (told,) = log.of(DeregisterReceiver)
    assert told.ended


def test_a_restart_ends_with_that_error(
    supervise: Supervise, receiver: Noting, log: EventLog, gate: Gate, clock: ManualClock
) -> None:
    supervisor = supervise(receiver, CONF)
    supervisor.start()
    receiver.on_stop = gate
    receiver.restart("connection lost", None, 0)
    assert gate.reached.wait(10)
    clock.await_waiters(2)
    clock.advance(3000)
    with pytest.raises(ReceiverStuckError, match="onStop has not returned for 3 s"):
        supervisor.await_termination()
    (told,) = log.of(DeregisterReceiver)
    assert told.message == SAID


def test_without_a_limit_it_is_waited_for(
    supervise: Supervise, receiver: Noting, log: EventLog, gate: Gate, clock: ManualClock, background: Background
) -> None:
    supervisor = supervise(receiver, CONF | {"spark.penstock.receiver.stopTimeout": "0"})
    supervisor.start()
    receiver.on_stop = gate
    stopping = background(lambda: supervisor.stop("Stopped by driver"))
    assert gate.reached.wait(10)
    clock.advance(100_000)
    await_blocked(ReceiverSupervisor._stop_receiver)
    gate.open()
    stopping.result(timeout=10)
    assert log.names == ["RegisterReceiver", "onStart", "onStop", "DeregisterReceiver"]
