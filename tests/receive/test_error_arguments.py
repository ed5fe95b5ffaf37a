"""Unusual values given as an error: the receiver restarts or ends, and the driver is notified."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock import ThreadReceiver
from penstock.receive.messages import DeregisterReceiver, ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Failing(ThreadReceiver[Any]):
    def receive(self) -> None:
        raise Unprintable


#: As untyped programs do.
TEXT: Any = "the reason, as text"


@pytest.mark.parametrize("place", ["receive", "onStart"])
def test_error_without_text_is_reported_from_the_receivers_own_code(
    supervise: Supervise, receiver: Noting, log: EventLog, background: Background, place: str
) -> None:
    def fail() -> None:
        raise Unprintable

    supervisor = supervise(Failing() if place == "receive" else receiver)
    receiver.on_start = fail
    starting = background(supervisor.start)
    log.await_count(DeregisterReceiver)
    error = log.of(DeregisterReceiver)[0].error
    assert "Unprintable" in error
    _, first, *_ = error.splitlines()
    assert f'File "{__file__}"' in first or "conftest.py" in first
    starting.result(timeout=30)


def test_text_given_as_an_error_stops_the_receiver(
    supervise: Supervise, receiver: Noting, log: EventLog, background: Background
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    receiver.stop("message", TEXT)
    ended = background(supervisor.await_termination)
    assert TEXT in str(ended.exception(timeout=30))
    assert TEXT in log.of(DeregisterReceiver)[0].error


@pytest.mark.parametrize(
    ("message", "error", "reported"),
    [
        ("cannot connect", OSError("refused"), "cannot connect - OSError: refused"),
        ("cannot connect: refused", OSError("refused"), "cannot connect: refused (OSError)"),
        ("OSError: refused", OSError("refused"), "OSError: refused"),
        ("cannot connect", OSError(), "cannot connect - OSError"),
        ("cannot connect", None, "cannot connect"),
        ("cannot connect", "refused", "cannot connect - refused"),
    ],
)
def test_reported_message_names_the_error(
    supervise: Supervise, receiver: Noting, log: EventLog, message: str, error: object, reported: str
) -> None:
    supervise(receiver).start()
    receiver.reportError(message, error)  # type: ignore[arg-type]  # what authors pass
    receiver.stop(message, error)  # type: ignore[arg-type]
    assert log.await_one(ReportError).message == reported
    assert log.await_one(DeregisterReceiver).message == reported
