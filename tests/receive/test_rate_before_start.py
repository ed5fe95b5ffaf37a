"""``on_rate_change`` is called after ``onStart`` only, which creates what it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.receive.receiver_supervisor import ReceiverSupervisor

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import FakeDriver, Noting


def test_rate_of_the_registration_is_notified_after_onStart(
    supervise: Callable[..., ReceiverSupervisor], receiver: Noting, driver: FakeDriver, log: EventLog
) -> None:
    driver.rate = 25.0
    in_force: list[float | None] = []
    receiver.on_start = lambda: in_force.append(receiver.rate_limit)
    supervise(receiver).start()
    assert in_force == [25.0]
    assert log.names == ["RegisterReceiver", "onStart", "rate 25.0"]
