"""``on_drained``: the last call of a run, after the last ``on_stored``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock import Receiver
from penstock.receive.messages import ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog, Gate
    from tests.receive.conftest import FakeStore

Supervise = Callable[..., ReceiverSupervisor]


class Acknowledges(Receiver[str]):
    def __init__(self, log: EventLog, on_drained: Callable[[], object] = lambda: None) -> None:
        self._log = log
        self._on_drained = on_drained

    def onStart(self) -> None:
        self._log.add("onStart")
        for record in "ab":
            self.store(record, lambda error, record=record: self._log.add(f"stored {record} {error or ''}"))  # type: ignore[misc]

    def onStop(self) -> None:
        self._log.add("onStop")

    def on_drained(self) -> None:
        self._log.add("drained")
        self._on_drained()


RUN = ["onStart", "onStop", "AddBlocks", "stored a ", "stored b ", "drained", "DeregisterReceiver"]


def test_on_drained_follows_the_last_on_stored_of_a_stop(supervise: Supervise, log: EventLog) -> None:
    supervisor = supervise(Acknowledges(log))
    supervisor.start()
    supervisor.stop("enough")
    assert log.names == ["RegisterReceiver", *RUN]


def test_on_drained_follows_the_on_stored_of_lost_records(
    supervise: Supervise, log: EventLog, store: FakeStore
) -> None:
    store.failures = 100
    supervisor = supervise(Acknowledges(log), {"spark.penstock.receiver.storeRetries": "0"})
    supervisor.start()
    supervisor.stop("enough")
    assert [name.split()[0] for name in log.names[-4:]] == ["stored", "stored", "drained", "DeregisterReceiver"]


def test_on_drained_is_called_once_if_a_stop_meets_a_restart(
    supervise: Supervise, log: EventLog, clock: ManualClock
) -> None:
    receiver = Acknowledges(log)
    supervisor = supervise(receiver)
    supervisor.start()
    receiver.restart("again", None, 3_600_000)
    # The timer of the blocks, and the delay.
    clock.await_waiters(2)
    supervisor.stop("enough")
    assert log.names == ["RegisterReceiver", *RUN, "DeregisterReceiver"]


def test_on_drained_that_does_not_return_is_reported(
    supervise: Supervise, log: EventLog, clock: ManualClock, gate: Gate, background: Any
) -> None:
    supervisor = supervise(Acknowledges(log, gate), {"spark.penstock.receiver.stopTimeout": "3s"})
    supervisor.start()
    stopping = background(lambda: supervisor.stop("enough"))
    assert gate.reached.wait(10)
    clock.await_waiters(1)
    clock.advance(3000)
    stopping.result(timeout=10)
    gate.open()
    (reported,) = log.of(ReportError)
    assert reported.message == (
        "on_drained has not returned for 3 s (spark.penstock.receiver.stopTimeout): it must return promptly"
    )
