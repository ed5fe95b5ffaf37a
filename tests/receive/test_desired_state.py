"""The driver's desired state: the highest number counts, whatever the order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from penstock.receive.messages import RegisterReceiver, UpdateRateLimit
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import FakeDriver, Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]


def test_a_late_pause_does_not_hold_stores(supervise: Supervise, receiver: Noting, background: Background) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.take(UpdateRateLimit(0.0, 2))
    supervisor.take(UpdateRateLimit(0.0, 1, True))
    background(lambda: receiver.store_all(["a"])).result(timeout=10)


def test_a_late_resume_does_not_end_a_pause(
    supervise: Supervise, receiver: Noting, background: Background, clock: ManualClock, driver: FakeDriver
) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.take(UpdateRateLimit(0.0, 2, True))
    supervisor.take(UpdateRateLimit(0.0, 1))
    storing = background(lambda: receiver.store_all(["a"]))
    # It waits in the limiter, which the clock shows: nothing lets it pass but the resume that follows.
    clock.await_waiters(2)
    assert not driver.blocks
    supervisor.take(UpdateRateLimit(0.0, 3))
    storing.result(timeout=10)


def test_a_late_rate_is_ignored(supervise: Supervise, receiver: Noting, log: EventLog) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.take(UpdateRateLimit(20.0, 5))
    supervisor.take(UpdateRateLimit(10.0, 4))
    assert receiver.rate_limit == 20.0
    assert [name for name in log.names if name.startswith("rate")] == ["rate 20.0"]


def test_rate_and_pause_share_one_number(supervise: Supervise, receiver: Noting) -> None:
    supervisor = supervise(receiver)
    supervisor.start()
    supervisor.take(UpdateRateLimit(0.0, 6))
    supervisor.take(UpdateRateLimit(30.0, 5, True))
    assert receiver.rate_limit is None
    supervisor.take(UpdateRateLimit(30.0, 7))
    assert receiver.rate_limit == 30.0


def test_a_rate_that_arrives_during_registration_precedes_the_older_one_of_the_answer(
    supervise: Supervise, receiver: Noting, driver: FakeDriver
) -> None:
    supervisor = supervise(receiver)
    driver.rate = 10.0
    driver.on_message = lambda message: (
        supervisor.take(UpdateRateLimit(20.0, 1)) if isinstance(message, RegisterReceiver) else None
    )
    supervisor.start()
    assert receiver.rate_limit == 20.0
