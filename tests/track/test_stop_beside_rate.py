"""A stop reaches a receiver that has not answered its last rate update."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from penstock.receive.messages import StopReceiver, UpdateRateLimit

if TYPE_CHECKING:
    from tests.track.conftest import Tracked


def test_stop_overtakes_a_hanging_rate_update(tracked: Tracked) -> None:
    gate = threading.Event()
    process = tracked.registered()
    process.on_message = lambda message: isinstance(message, UpdateRateLimit) and gate.wait(60)
    tracked.tracker.send_rate_update(0, 10.0)
    process.received.await_one(UpdateRateLimit)
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + 30)
        try:
            assert process.received.await_one(StopReceiver)
        finally:
            gate.set()
            process.received.await_one(StopReceiver)
            process.launch.end()
            stopping.result(timeout=20)
