"""A stop or a restart that comes while ``onStart`` runs makes it end."""

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


def store_forever(receiver: Noting, log: EventLog, store: Callable[[], object]) -> Callable[[], None]:
    """An ``onStart`` that receives, which it should not."""

    def on_start() -> None:
        store()
        log.add("stores")
        while not receiver.isStopped():
            store()

    return on_start


@pytest.mark.parametrize("form", ["store", "store_all"])
@pytest.mark.parametrize("conf", [{}, {"spark.streaming.receiver.maxRate": "1"}], ids=["no limit", "limit"])
def test_store_in_onStart_raises_after_a_stop(
    supervise: Supervise, receiver: Noting, log: EventLog, background: Background, conf: dict[str, str], form: str
) -> None:
    raised: list[BaseException] = []

    def on_start() -> None:
        log.add("stores")
        try:
            while True:
                receiver.store(1) if form == "store" else receiver.store_all([1])
        except ReceiverStoppedError as error:
            raised.append(error)
            raise

    supervisor = supervise(receiver, conf | {"spark.penstock.receiver.maxBufferedRecords": "1000000000"})
    receiver.on_start = on_start
    supervisor.start_soon()
    log.await_count("stores")
    background(lambda: supervisor.stop("enough")).result(timeout=10)
    supervisor.await_termination()
    assert len(raised) == 1
    assert log.of(ReportError) == []
    assert log.names.count("onStop") == 1
    (ended,) = log.of(DeregisterReceiver)
    assert (ended.message, ended.error, ended.dropped) == ("enough", "", 0)


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


def test_onStart_that_ignores_a_stop_is_abandoned(
    supervise: Supervise, receiver: Noting, log: EventLog, gate: Gate, clock: ManualClock, background: Background
) -> None:
    supervisor = supervise(receiver, {"spark.penstock.receiver.stopTimeout": "3s"})
    receiver.on_start = gate
    supervisor.start_soon()
    assert gate.reached.wait(10)
    stopping = [background(lambda: supervisor.stop("Stopped by driver")) for _ in range(2)]
    # The timer of the blocks and the deadline of the stop.
    clock.await_waiters(2)
    clock.advance(3000)
    for future in stopping:
        future.result(timeout=10)
    with pytest.raises(
        ReceiverStuckError, match=r"^onStart has not returned for 3 s after a stop \(.*receiver\.stopTimeout\); it must"
    ):
        supervisor.await_termination()
    gate.open()
    assert len(log.of(DeregisterReceiver)) == 1
    assert "onStop" not in log.names
