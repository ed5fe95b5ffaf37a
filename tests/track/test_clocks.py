"""Driver and receivers on hosts whose clocks differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import wait_for

from penstock import Receiver
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.conf import Settings
from penstock.receive.messages import RegisterReceiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.wire.client import Client
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.track.conftest import Tracked

DAY_MS = 86_400_000


class Numbers(Receiver[int]):
    """Stores what the test says."""

    def onStart(self) -> None:
        self.store_all([1, 2])


@pytest.mark.parametrize("ahead_ms", [-999_000, 0, DAY_MS], ids=["behind", "equal", "a day ahead"])
def test_batches_and_rates_do_not_depend_on_the_clock_of_a_receivers_host(
    make_tracker: Callable[..., Tracked], tmp_path: Path, ahead_ms: int
) -> None:
    tracked = make_tracker([Numbers()])
    tracked.tracker.start()
    process = tracked.process()
    driver, there = process.task.driver, ManualClock(tracked.clock.now_ms() + ahead_ms)
    client = Client(driver.location, driver.token, 10_000)
    registration = RegisterReceiver(0, 1, "Numbers", process.endpoint.port, directory=str(tmp_path))
    receiver = Numbers()
    supervisor = ReceiverSupervisor(
        receiver, registration, Settings.parse({}), client, LocalBlockHandler(tmp_path), there
    )
    obey: Callable[[Any], object] = supervisor.take
    process.on_message = obey
    try:
        supervisor.start_soon()
        wait_for(lambda: tracked.tracker.has_unallocated_blocks, "the blocks are reported")
        now_ms = tracked.clock.now_ms()
        tracked.tracker.allocate_blocks_to_batch(now_ms)
        assert tracked.tracker.input_info(now_ms, 0).numRecords == 2
        # What listeners see of the other clock.
        assert tracked.tracker.input_info(now_ms, 0).earliest_arrival == now_ms + ahead_ms
        tracked.tracker.send_rate_update(0, 7.0)
        wait_for(lambda: receiver.rate_limit == 7.0, "the rate arrives")
    finally:
        supervisor.stop("the test is over")
        client.close()
    tracked.settle()
    info = tracked.tracker.receiver_infos()[0]
    assert (info.active, info.lastErrorMessage) == (False, "the test is over")
