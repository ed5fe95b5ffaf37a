"""Messages of receivers that arrive again: blocks are counted once, and an ended launch has no say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.listen.events import ReceiverError

if TYPE_CHECKING:
    from tests.track.conftest import FakeProcess, Tracked


def ids(tracked: Tracked, batch_time_ms: int) -> list[str]:
    """The blocks of a batch."""
    tracked.tracker.allocate_blocks_to_batch(batch_time_ms)
    return [each.block_id for each in tracked.tracker.blocks.blocks_of_batch(batch_time_ms, 0)]


def relaunched(tracked: Tracked) -> tuple[FakeProcess, FakeProcess]:
    """A launch that has stored a block and ended, and the one after it."""
    old = tracked.registered()
    assert old.add(0).accepted
    old.report("the source was slow")
    old.deregister("restarts")
    old.launch.end(RuntimeError("lost"))
    tracked.relaunch()
    return old, tracked.registered(2)


def test_messages_of_an_ended_launch_change_nothing(tracked: Tracked) -> None:
    old, new = relaunched(tracked)
    assert ids(tracked, 100) == ["input-0-1-0"]
    tracked.settle()
    before, events, connection = tracked.tracker.receiver_infos(), tracked.events.names, tracked.connection()
    assert old.register().reason == "launch 1 of stream 0 was replaced, or has ended"
    assert old.report("the source was slow").reason == "launch 1 of stream 0 was replaced, or has ended"
    assert old.deregister("restarts").reason == "launch 1 of stream 0 was replaced, or has ended"
    # Blocks that the driver has accepted are accepted, for their sender would delete refused ones; they count once.
    assert old.add(0).accepted
    assert old.add(1).reason == "launch 1 of stream 0 was replaced, or has ended"
    tracked.settle()
    assert (tracked.tracker.receiver_infos(), tracked.events.names) == (before, events)
    assert tracked.connection() is connection
    assert new.add(0).accepted
    assert ids(tracked, 200) == ["input-0-2-0"]


def test_messages_of_the_current_launch_count_once_except_for_errors(tracked: Tracked) -> None:
    process = tracked.registered()
    for _ in range(2):
        assert process.register().accepted
        assert process.add(0, 1).accepted
        assert process.report("the source was slow").accepted
    tracked.settle()
    assert ids(tracked, 100) == ["input-0-1-0", "input-0-1-1"]
    assert tracked.events.names == ["ReceiverStarted", "ReceiverError", "ReceiverError"]
    assert tracked.tracker.receiver_infos()[0].active


def test_report_counts_once_however_many_blocks_came_between(tracked: Tracked) -> None:
    process = tracked.registered()
    assert process.add(0).accepted
    assert ids(tracked, 100) == ["input-0-1-0"]
    assert process.add(*range(1, 11_000)).accepted
    assert len(ids(tracked, 200)) == 10_999
    tracked.tracker.clean_up(201, delete=True)
    assert process.add(0).accepted
    assert ids(tracked, 300) == []
    assert tracked.tracker.backlog.num_bytes == 0


def test_deregistration_that_arrives_again_after_a_restart_is_corrected_by_the_next_one(tracked: Tracked) -> None:
    process = tracked.registered()
    process.deregister("restarts")
    process.register()
    # That of the restart before: launch and stream are those of the running receiver.
    process.deregister("restarts")
    tracked.settle()
    assert not tracked.tracker.receiver_infos()[0].active
    # It still stores, and is active again when it registers the next time.
    assert process.add(0).accepted
    assert process.register().accepted
    tracked.settle()
    assert tracked.tracker.receiver_infos()[0].active
    assert ids(tracked, 100) == ["input-0-1-0"]
    assert not [entry for entry in tracked.events.entries if isinstance(entry, ReceiverError)]
