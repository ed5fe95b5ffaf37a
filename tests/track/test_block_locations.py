"""A block keeps its location wherever its receiver is relaunched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.receive.messages import CleanUpBlocks
from penstock.spark.cluster import TaskLocation

if TYPE_CHECKING:
    from tests.track.conftest import Tracked


def test_location_of_a_block_is_where_it_was_stored(make_tracker: Callable[..., Tracked]) -> None:
    tracked = make_tracker()
    tracked.tracker.start()
    first = tracked.registered()
    first.add(0)
    first.launch.end(RuntimeError("lost"))
    tracked.place = TaskLocation("host-b", "2")
    tracked.relaunch()
    second = tracked.registered(2, address="127.0.0.2")
    second.add(0)
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    found = tracked.located(tracked.tracker.blocks.blocks_of_batch(100, 0))
    assert [(host, reference.block_id) for host, _size, reference in found] == [
        ("host-a", "input-0-1-0"),
        ("host-b", "input-0-2-0"),
    ]
    # The other host's endpoint does not have it.
    assert found[0][2].source != found[1][2].source


def test_relaunched_receiver_serves_older_blocks_of_its_host(make_tracker: Callable[..., Tracked]) -> None:
    tracked = make_tracker()
    tracked.tracker.start()
    first = tracked.registered()
    first.add(0)
    first.launch.end(RuntimeError("lost"))
    tracked.relaunch()
    second = tracked.registered(2)
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    ((host, _size, reference),) = tracked.located(tracked.tracker.blocks.blocks_of_batch(100, 0))
    assert (host, reference.source) == ("host-a", second.source)
    tracked.tracker.clean_up(200, delete=True)
    assert second.received.await_one(CleanUpBlocks) == CleanUpBlocks(["input-0-1-0"])
