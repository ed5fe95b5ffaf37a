"""A rate reaches its receiver in the end, and orders bear numbers that grow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import WireError
from penstock.receive.messages import PauseReceiver, UpdateRateLimit

if TYPE_CHECKING:
    from tests.track.conftest import Tracked


@pytest.fixture
def fail(tracked: Tracked, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[object]]:
    """Has so many orders to the receiver not be delivered; gives those that were not."""

    def fail(count: int) -> list[object]:
        (receiver,) = tracked.tracker._tracked.values()
        assert receiver.line is not None
        ask, failed = receiver.line.client.ask, list[object]()

        def sometimes(message: object, reply_kind: type[Any]) -> Any:
            if len(failed) < count:
                failed.append(message)
                raise WireError("no way")
            return ask(message, reply_kind)

        monkeypatch.setattr(receiver.line.client, "ask", sometimes)
        return failed

    return fail


def wait_until(condition: Callable[[], object]) -> None:
    for _ in range(5000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("not within 5 s")


def test_a_rate_that_did_not_arrive_is_told_again(tracked: Tracked, fail: Callable[[int], list[object]]) -> None:
    process = tracked.registered()
    failed = fail(2)
    tracked.tracker.send_rate_update(0, 100.0)
    for number in (1, 2):
        tracked.await_waiters()
        assert len(failed) == number
        tracked.clock.advance(1000)
    assert process.told.await_one(UpdateRateLimit).rate == 100.0


def test_the_newest_rate_is_told_and_once_however_many_did_not_arrive(
    tracked: Tracked, fail: Callable[[int], list[object]]
) -> None:
    process = tracked.registered()
    failed = fail(5)
    for rate in range(1, 6):
        tracked.tracker.send_rate_update(0, float(rate))
        # One that waits would be replaced by the next.
        wait_until(lambda: len(failed) == rate)  # noqa: B023  # called at once
    tracked.settle()
    tracked.await_waiters()
    tracked.clock.advance(1000)
    assert process.told.await_one(UpdateRateLimit).rate == 5.0
    tracked.settle()
    assert process.told.names == ["UpdateRateLimit"]


def test_one_that_is_launched_again_meanwhile_is_told_nothing_old(
    tracked: Tracked, fail: Callable[[int], list[object]]
) -> None:
    process = tracked.registered()
    fail(1)
    tracked.tracker.send_rate_update(0, 100.0)
    tracked.await_waiters()
    process.launch.end(RuntimeError("lost"))
    tracked.settle()
    tracked.tracker.send_rate_update(0, 200.0)
    tracked.await_waiters(2)
    tracked.clock.advance(1000)
    again = tracked.process(2)
    assert again.register().rate == 200.0
    tracked.settle()
    assert [each.rate for each in again.told.entries] in ([], [200.0])


def test_orders_bear_numbers_that_grow(tracked: Tracked) -> None:
    process = tracked.process()
    numbers = [process.register().number]
    tracked.tracker.send_rate_update(0, 100.0)
    numbers.append(process.told.await_one(UpdateRateLimit).number)
    for count, paused in enumerate((True, False), start=1):
        tracked.tracker.pause(paused)
        numbers.append(process.told.await_one(PauseReceiver, count).number)
    numbers.append(process.register().number)
    assert sorted(set(numbers)) == numbers
