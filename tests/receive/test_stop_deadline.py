"""An ``onStop`` that does not return delays a stop or a restart by its timeout only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import await_blocked

from penstock.errors import ReceiverStuckError
from penstock.receive.messages import DeregisterReceiver, ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.helpers import EventLog, Gate
    from tests.receive.conftest import Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]
CONF = {"spark.penstock.receiver.stopTimeout": "3s", "spark.streaming.blockInterval": "1h"}
SAID = (
    "onStop has not returned for 3 s (spark.penstock.receiver.stopTimeout): does it wake what receives, and that end?"
)


def test_buffer_is_flushed_and_the_driver_notified(
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
    (received,) = log.of(DeregisterReceiver)
    assert (received.message, received.flushed, received.ended) == ("Stopped by driver", 1, True)


def test_stop_timeout_of_zero_waits_for_onStop(
    supervise: Supervise, receiver: Noting, log: EventLog, gate: Gate, clock: ManualClock, background: Background
) -> None:
    supervisor = supervise(receiver, CONF | {"spark.penstock.receiver.stopTimeout": "0"})
    supervisor.start()
    receiver.on_stop = gate
    stopping = background(lambda: supervisor.stop("Stopped by driver"))
    assert gate.reached.wait(10)
    clock.advance(100_000)
    await_blocked(ReceiverSupervisor.stop, inside=True)
    gate.open()
    stopping.result(timeout=10)
    assert log.names == ["RegisterReceiver", "onStart", "onStop", "DeregisterReceiver"]
