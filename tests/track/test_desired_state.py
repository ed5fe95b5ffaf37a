"""Rate and pause reach a receiver in the end, the newest version only, under numbers that never go down."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers.waiting import wait_for

from penstock.errors import WireError
from penstock.receive.messages import UpdateRateLimit

if TYPE_CHECKING:
    from tests.track.conftest import Tracked


@pytest.fixture
def fail(tracked: Tracked, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[object]]:
    """Has this many messages to the receiver fail; returns those that did."""

    def fail(count: int) -> list[object]:
        client, failed = tracked.connection().client, list[object]()
        ask = client.ask

        def sometimes(message: object, reply_kind: type[Any]) -> Any:
            if len(failed) < count:
                failed.append(message)
                raise WireError("connection reset")
            return ask(message, reply_kind)

        monkeypatch.setattr(client, "ask", sometimes)
        return failed

    return fail


def undelivered(tracked: Tracked) -> bool:
    """Whether the tracker knows that its last message did not arrive."""
    # Holds the race open: no event reports a lost message.
    return tracked.tracker._tracked.records[0].sent == 0


def test_newest_rate_is_sent_once_however_many_were_not_delivered(
    tracked: Tracked, fail: Callable[[int], list[object]]
) -> None:
    process = tracked.registered()
    failed = fail(5)
    for rate in range(1, 6):
        tracked.tracker.send_rate_update(0, float(rate))
        # One that waits would be replaced by the next.
        wait_for(lambda: len(failed) == rate, "a failure")  # noqa: B023  # called at once
    wait_for(lambda: undelivered(tracked), "the last failure")
    tracked.tick()
    assert process.received.await_one(UpdateRateLimit).rate == 5.0
    tracked.tick()
    assert process.received.names == ["UpdateRateLimit"]


def test_relaunched_receiver_learns_the_newest_rate_only(tracked: Tracked, fail: Callable[[int], list[object]]) -> None:
    process = tracked.registered()
    fail(1)
    tracked.tracker.send_rate_update(0, 100.0)
    wait_for(lambda: undelivered(tracked), "the failure")
    process.launch.end(RuntimeError("lost"))
    tracked.settle()
    tracked.tracker.send_rate_update(0, 200.0)
    tracked.relaunch(1000)
    again = tracked.process(2)
    assert again.desired().rate == 200.0
    tracked.tick()
    assert again.received.entries == []
