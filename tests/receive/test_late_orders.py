"""Orders of the driver that come late, behind newer ones, count no more."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from penstock.receive.messages import RegisterReceiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor

if TYPE_CHECKING:
    from tests.receive.conftest import FakeDriver, Log, Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


def test_an_old_pause_does_not_stop_what_goes_on(
    supervise: Supervise, receiver: Noting, background: Background
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.update(2, paused=False)
    supervisor.update(1, paused=True)
    background(lambda: receiver.store_all(["a"])).result(timeout=10)


def test_an_old_go_on_does_not_end_a_pause(supervise: Supervise, receiver: Noting, background: Background) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.update(2, paused=True)
    supervisor.update(1, paused=False)
    with pytest.raises(TimeoutError):
        background(lambda: receiver.store_all(["a"])).result(timeout=0.02)


def test_an_old_rate_is_not_kept_to(supervise: Supervise, receiver: Noting, log: Log) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.update(5, rate=20.0)
    supervisor.update(4, rate=10.0)
    # A pause in between is an order of another kind.
    supervisor.update(6, paused=False)
    supervisor.update(5, rate=30.0)
    assert receiver.rate_limit == 30.0
    assert [name for name in log.names if name.startswith("rate")] == ["rate 20.0", "rate 30.0"]


def test_a_rate_that_is_told_while_a_receiver_registers_counts_more_than_the_answer(
    supervise: Supervise, receiver: Noting, driver: FakeDriver
) -> None:
    supervisor = supervise(receiver)
    driver.rate = 10.0
    driver.on_message = lambda message: (
        supervisor.update(1, rate=20.0) if isinstance(message, RegisterReceiver) else None
    )
    supervisor.start()
    assert receiver.rate_limit == 20.0
