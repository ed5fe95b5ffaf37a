"""All receivers pause and resume: also those that register later or could not be reached."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from penstock import Receiver
from penstock.receive.messages import StopReceiver, UpdateRateLimit

if TYPE_CHECKING:
    from tests.track.conftest import Tracked

MakeTracker = Callable[..., "Tracked"]


def test_pause_reaches_all_receivers(make_tracker: MakeTracker, silent: type[Receiver[Any]]) -> None:
    tracked = make_tracker([silent(), silent()])
    tracked.tracker.start()
    processes = [tracked.registered(1), tracked.registered(2)]
    tracked.tracker.pause(True)
    for process in processes:
        assert process.received.await_one(UpdateRateLimit).paused
    tracked.tracker.pause(False)
    for process in processes:
        assert not process.received.await_one(UpdateRateLimit, 2).paused


def test_receiver_learns_a_pause_at_registration(tracked: Tracked) -> None:
    tracked.tracker.pause(True)
    process = tracked.process()
    assert process.desired().paused
    assert process.received.entries == []
    tracked.tracker.pause(False)
    assert not process.received.await_one(UpdateRateLimit).paused


def test_no_rate_or_pause_is_sent_after_a_stop(tracked: Tracked) -> None:
    process = tracked.registered()
    process.launch.cancel = lambda: None  # type: ignore[method-assign]  # its job takes its time to end
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + 30)
        process.received.await_one(StopReceiver)
        tracked.tracker.pause(True)
        tracked.tracker.send_rate_update(0, 5.0)
        tracked.settle()
        process.launch.end()
        stopping.result(timeout=10)
    assert process.received.names == ["StopReceiver"]
