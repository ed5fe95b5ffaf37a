"""A receiver that fails too often is restarted, given up, or stops the application, by policy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Receiver
from penstock.errors import ReceiverFailedError
from penstock.listen.events import ReceiverError

if TYPE_CHECKING:
    from tests.track.conftest import FakeProcess, Tracked

MakeTracker = Callable[..., "Tracked"]
SilentClass = type[Receiver[Any]]


def conf(policy: str, restarts: int = 2) -> dict[str, str]:
    return {
        "spark.penstock.receiver.maxRestarts": str(restarts),
        "spark.penstock.receiver.restartWindow": "1h",
        "spark.penstock.receiver.onFailure": policy,
    }


def fail(tracked: Tracked, times: int, first: int = 1) -> None:
    """Have launches end badly, each but the last followed by the next."""
    for number in range(first, first + times):
        if number > first:
            tracked.relaunch()
        tracked.launch(number).end(RuntimeError(f"failure {number}"))
    tracked.settle()


def messages(tracked: Tracked) -> list[str]:
    return [entry.receiverInfo.lastErrorMessage for entry in tracked.events.entries if isinstance(entry, ReceiverError)]


def restart(process: FakeProcess, reason: str = "lost") -> None:
    """As a supervisor that restarts its receiver after an error."""
    process.report(reason)
    process.deregister(f"Restarting receiver with delay 0 ms: {reason}", f"Traceback: {reason}")


def test_receiver_that_fails_too_often_is_unhealthy_and_restarts(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf=conf("restart"))
    tracked.tracker.start()
    fail(tracked, 2)
    assert not tracked.tracker.receiver_infos()[0].unhealthy
    tracked.relaunch()
    fail(tracked, 1, first=3)
    info = tracked.tracker.receiver_infos()[0]
    assert (info.unhealthy, info.given_up) == (True, False)
    assert [said for said in messages(tracked) if "unhealthy" in said] == [
        "receiver Silent-0 is unhealthy, it is relaunched further: more than 2 failures within 3600 s "
        "(spark.penstock.receiver.maxRestarts); the last one: the receiver's task failed: RuntimeError: failure 3"
    ]
    tracked.relaunch()
    # Reported once, however long it lasts.
    fail(tracked, 3, first=4)
    assert sum("unhealthy" in said for said in messages(tracked)) == 1
    tracked.relaunch()
    assert tracked.registered(7).add(0).accepted
    assert tracked.application_errors == []


def test_receiver_is_healthy_again_after_the_restart_window(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf=conf("restart", 1) | {"spark.penstock.receiver.restartWindow": "5min"})
    tracked.tracker.start()
    fail(tracked, 2)
    tracked.relaunch()
    tracked.registered(3)
    assert tracked.tracker.receiver_infos()[0].unhealthy
    tracked.await_waiters()
    tracked.clock.advance(300_000)
    tracked.await_waiters()
    tracked.settle()
    assert not tracked.tracker.receiver_infos()[0].unhealthy
    # The next time it is not, that is reported again.
    tracked.launch(3).end(RuntimeError("failure 3"))
    tracked.relaunch()
    tracked.launch(4).end(RuntimeError("failure 4"))
    tracked.settle()
    assert sum("unhealthy" in said for said in messages(tracked)) == 2


def test_stop_stream_gives_up_one_receiver_and_keeps_the_others(make_tracker: MakeTracker, silent: SilentClass) -> None:
    tracked = make_tracker([silent(), silent()], conf=conf("stop-stream", 0))
    tracked.tracker.start()
    tracked.launch(2)
    bad, good = sorted((tracked.registered(1), tracked.registered(2)), key=lambda process: process.task.stream_id)
    assert bad.add(0).accepted
    bad.launch.end(RuntimeError("died"))
    tracked.settle()
    infos = tracked.tracker.receiver_infos()
    assert [(info.given_up, info.unhealthy, info.active) for info in infos.values()] == [
        (True, True, False),
        (False, False, True),
    ]
    assert messages(tracked)[-1].startswith("receiver Silent-0 is given up: more than 0 failures")
    assert tracked.events.names[-1] == "ReceiverStopped"
    tracked.clock.advance(100_000)
    tracked.settle()
    assert len(tracked.launches) == 2
    assert good.add(0).accepted
    # What it had stored is processed.
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    assert [block.block_id for block in tracked.tracker.blocks.blocks_of_batch(100, 0)] == ["input-0-1-0"]
    assert tracked.application_errors == []


def test_fail_application_raises_the_receivers_error(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf=conf("fail-application", 1))
    tracked.tracker.start()
    fail(tracked, 2)
    (error,) = tracked.application_errors
    assert isinstance(error, ReceiverFailedError)
    assert str(error) == (
        "receiver Silent-0 is given up: more than 1 failures within 3600 s (spark.penstock.receiver.maxRestarts); "
        "the last one: the receiver's task failed: RuntimeError: failure 2"
    )
    tracked.clock.advance(100_000)
    tracked.settle()
    assert len(tracked.launches) == 2


@pytest.mark.parametrize("policy", ["stop-stream", "fail-application"])
def test_restarts_without_error_do_not_count_as_failures(make_tracker: MakeTracker, policy: str) -> None:
    tracked = make_tracker(conf=conf(policy, 0))
    tracked.tracker.start()
    process = tracked.registered()
    process.report("a line could not be read")
    process.deregister("Restarting receiver with delay 0 ms: the source has moved")
    assert process.register().accepted
    process.deregister("enough")
    process.launch.end()
    tracked.relaunch()
    tracked.registered(2)
    tracked.tracker.stop(time.monotonic())
    info = tracked.tracker.receiver_infos()[0]
    assert (info.unhealthy, info.given_up, tracked.application_errors) == (False, False, [])


def test_recent_errors_have_their_times(tracked: Tracked) -> None:
    process = tracked.registered()
    for number in range(25):
        process.report(f"error {number}", f"Traceback {number}")
        tracked.await_waiters()
        tracked.clock.advance(10)
    info = tracked.tracker.receiver_infos()[0]
    assert [(past.time, past.message, past.error) for past in info.recent_errors] == [
        (1_000_000 + 10 * number, f"error {number}", f"Traceback {number}") for number in range(5, 25)
    ]
    assert (info.lastErrorTime, info.lastErrorMessage) == (1_000_240, "error 24")


def test_end_without_error_leaves_the_error_time(tracked: Tracked) -> None:
    process = tracked.registered()
    process.report("something", "Traceback")
    tracked.clock.advance(500)
    process.deregister("enough")
    info = tracked.tracker.receiver_infos()[0]
    assert (info.lastErrorMessage, info.lastError, info.lastErrorTime) == ("enough", "", 1_000_000)
    assert [past.message for past in info.recent_errors] == ["something"]
