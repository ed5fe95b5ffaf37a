"""A record that cannot be pickled is left out alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.receive.messages import ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import Noting


def test_record_that_cannot_be_pickled_is_reported_and_left_out(
    supervise: Callable[..., ReceiverSupervisor], receiver: Noting, log: EventLog, records: Callable[[], list[Any]]
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    for record in (1, threading.Lock(), "two"):
        receiver.store(record)
    supervisor.stop("enough")
    supervisor.await_termination()
    assert records() == [1, "two"]
    (received,) = log.of(ReportError)
    expected = "1 record left out, because pickle fails; the first is of type lock - TypeError: cannot pickle"
    assert received.message.startswith(expected)
    assert "lock" in received.error


def test_block_of_unpicklable_records_is_not_pushed(
    supervise: Callable[..., ReceiverSupervisor], receiver: Noting, log: EventLog, records: Callable[[], list[Any]]
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    receiver.store(threading.Lock())
    supervisor.stop("enough")
    supervisor.await_termination()
    assert records() == []
    assert len(log.of(ReportError)) == 1
