"""A receiver without a free slot is reported, counted as a failure and relaunched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.errors import ConfigurationError
from penstock.listen.events import ReceiverError

if TYPE_CHECKING:
    from tests.track.conftest import Tracked

MakeTracker = Callable[..., "Tracked"]


def wait(tracked: Tracked, duration_ms: int) -> None:
    """Let time pass, and have the tracker look."""
    tracked.await_waiters()
    tracked.clock.advance(duration_ms)
    tracked.await_waiters()
    tracked.settle()


def test_receiver_that_misses_its_launch_timeout_is_relaunched(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf={"spark.penstock.receiver.launchTimeout": "30s"})
    tracked.tracker.start()
    launch = tracked.launch()
    wait(tracked, 29_000)
    assert not launch.cancelled
    wait(tracked, 2_000)
    assert launch.cancelled
    (event,) = tracked.events.entries
    assert event.receiverInfo.lastErrorMessage == (
        "receiver Silent-0 has not registered within 30 s of its launch (spark.penstock.receiver.launchTimeout): "
        "is there a free slot for it? Each receiver occupies a core"
    )
    tracked.relaunch()
    assert tracked.registered(2).add(0).accepted
    wait(tracked, 1_000_000)
    assert not tracked.launch(2).cancelled
    assert tracked.events.names == ["ReceiverError", "ReceiverStarted"]


def test_no_launch_timeout_waits(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf={"spark.penstock.receiver.launchTimeout": "0"})
    tracked.tracker.start()
    launch = tracked.launch()
    wait(tracked, 10**8)
    assert not launch.cancelled
    assert tracked.events.entries == []


def test_job_that_cannot_be_cancelled_is_reported_once(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf={"spark.penstock.receiver.launchTimeout": "5s"})
    tracked.tracker.start()

    def fail() -> None:
        raise RuntimeError("the gateway is gone")

    launch = tracked.launch()
    cancel, launch.cancel = launch.cancel, fail  # type: ignore[method-assign]  # once
    for _ in range(3):
        wait(tracked, 10_000)
    assert tracked.events.names == ["ReceiverError"]
    launch.cancel = cancel  # type: ignore[method-assign]
    # It has found its slot after all.
    assert tracked.process().register().accepted
    assert isinstance(tracked.events.entries[0], ReceiverError)


@pytest.mark.parametrize(
    ("conf", "refused"),
    [
        ({"spark.speculation": "true", "spark.speculation.task.duration.threshold": "60s"}, True),
        # As PySpark writes the True of a program.
        ({"spark.speculation": "True", "spark.speculation.task.duration.threshold": "60s"}, True),
        ({"spark.speculation": "true"}, False),
        ({"spark.speculation.task.duration.threshold": "60s"}, False),
        ({}, False),
    ],
    ids=["both", "both, in Python", "speculation", "threshold", "neither"],
)
def test_speculation_of_receiver_tasks_is_refused(
    make_tracker: MakeTracker, monkeypatch: pytest.MonkeyPatch, conf: dict[str, str], refused: bool
) -> None:
    tracked = make_tracker()
    monkeypatch.setattr(tracked.sc, "conf", conf)
    if refused:
        with pytest.raises(ConfigurationError, match=r"threshold=60s Spark would run a second copy of each receiver"):
            tracked.launcher.check()
    else:
        tracked.launcher.check()
