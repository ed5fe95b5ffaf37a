"""Garbage at the driver's port is refused and counted, nothing is unpickled, and receivers do not notice."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.wire.garbage import exploded, pelt, refusals

from penstock.receive.messages import UpdateRateLimit
from penstock.wire import endpoint

if TYPE_CHECKING:
    from tests.track.conftest import Tracked


def test_driver_survives_garbage_at_its_port(
    tracked: Tracked, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "_THROTTLE_S", 0)
    process = tracked.registered()
    port = urlsplit(process.task.driver.location).port or 0
    strangers, messages = pelt(port, process.task.driver.token, "AddBlocks")
    assert refusals(caplog) == [
        *["call without the application's token refused"] * strangers,
        *["message refused"] * messages,
    ]
    assert exploded == []
    assert process.add(0, 1).accepted
    tracked.tracker.send_rate_update(0, 5.0)
    assert process.received.await_one(UpdateRateLimit).rate == 5.0
    assert tracked.events.names == ["ReceiverStarted"]
