"""After a stop no receiver is reported active, and nothing is pending."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.helpers.waiting import wait_for

from penstock.listen.events import ReceiverStopped
from penstock.receive.messages import StopReceiver

if TYPE_CHECKING:
    from tests.track.conftest import Tracked


@pytest.mark.parametrize("how", ["deregistered", "died", "ended by force"])
def test_receiver_is_reported_stopped_after_a_stop(tracked: Tracked, how: str) -> None:
    process = tracked.registered()
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + (0.05 if how == "ended by force" else 30))
        process.received.await_one(StopReceiver)
        if how == "deregistered":
            process.deregister("Stopped by driver")
        if how != "ended by force":
            process.launch.end(None if how == "deregistered" else RuntimeError("Python worker exited unexpectedly"))
        stopping.result(timeout=10)
    assert not tracked.tracker.receiver_infos()[0].active
    assert tracked.events.await_one(ReceiverStopped)
    assert tracked.events.names.count("ReceiverStopped") == 1


def test_no_relaunch_is_pending_after_release(tracked: Tracked) -> None:
    tracked.registered().launch.end(RuntimeError("lost"))
    tracked.await_waiters()
    # Nobody moves the clock any more.
    tracked.tracker.release()
    wait_for(lambda: not any(thread.name == "ReceiverTracker" for thread in threading.enumerate()), "its loop")
