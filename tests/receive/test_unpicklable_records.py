"""A record that cannot be pickled is left out alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.blocks import arrow_form
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
    expected = (
        "1 record could not be pickled and is lost; the first has type lock. Store only records that pickle supports - "
        "TypeError: cannot pickle"
    )
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


def test_failed_encoding_of_picklable_records_says_what_failed(
    supervise: Callable[..., ReceiverSupervisor], receiver: Noting, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_records: list[Any]) -> None:
        raise MemoryError("no memory for a column")

    failures: list[BaseException | None] = []
    supervisor = supervise(receiver)
    supervisor.start()
    monkeypatch.setattr(arrow_form, "encode", fail)
    receiver.store(1, failures.append)
    receiver.store(2, failures.append)
    supervisor.stop("enough")
    supervisor.await_termination()
    assert {str(failure) for failure in failures} == {
        "a block of 2 records could not be encoded: MemoryError: no memory for a column"
    }
    assert log.of(ReportError) == []
