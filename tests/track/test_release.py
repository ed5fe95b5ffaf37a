"""A graceful stop: receivers end first; their blocks and the endpoint outlive the last batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.helpers.waiting import wait_for

from penstock.blocks.block_transfer import BlocksLost, LostBlock
from penstock.listen.events import ReceiverError
from penstock.receive.messages import ReleaseReceiver, StopReceiver
from penstock.track import receiver_tracker
from penstock.wire.client import Client
from penstock.wire.json_codec import Reply

if TYPE_CHECKING:
    from tests.track.conftest import FakeProcess, Tracked

MakeTracker = Callable[..., "Tracked"]


@pytest.fixture
def tracked(make_tracker: MakeTracker) -> Tracked:
    """A tracker whose receivers may be on other hosts."""
    tracked = make_tracker(master="spark://elsewhere:7077")
    tracked.tracker.start()
    tracked.launch()
    return tracked


@pytest.fixture
def drained(tracked: Tracked) -> Iterator[tuple[Tracked, FakeProcess]]:
    """One whose receiver was stopped, flushed and ended; its job still runs."""
    process = tracked.registered()
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + 30, drains=True)
        process.received.await_one(StopReceiver)
        assert process.add(7).accepted
        assert process.deregister("Stopped by driver", ended=True).accepted
        stopping.result(timeout=10)
    yield tracked, process
    process.launch.end()


def test_draining_stop_asks_receivers_to_serve_blocks(drained: tuple[Tracked, FakeProcess]) -> None:
    tracked, process = drained
    (stop,) = process.received.entries
    assert 30_000 < stop.serve_ms < 60_000
    assert tracked.events.names == ["ReceiverStarted", "ReceiverStopped"]
    tracked.tracker.blocks.allocate_blocks_to_batch(1000)
    stored = tracked.tracker.blocks.blocks_of_batch(1000, 0)
    ((_host, _bytes, reference),) = tracked.located(stored)
    assert reference.source == process.source


def test_receivers_on_this_machine_do_not_serve_after_a_stop(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(master="local[8]")
    tracked.tracker.start()
    process = tracked.registered()
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + 30, drains=True)
        assert process.received.await_one(StopReceiver).serve_ms == 0
        process.launch.end()
        stopping.result(timeout=10)


def test_stop_without_drain_asks_nobody_to_serve(tracked: Tracked) -> None:
    process = tracked.registered()
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + 30)
        assert process.received.await_one(StopReceiver).serve_ms == 0
        process.launch.end()
        stopping.result(timeout=10)


def test_receiver_that_does_not_stop_leaves_time_for_the_batches(
    tracked: Tracked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_tracker, "_FLUSH_SHARE", 0.001)
    process = tracked.registered()
    deadline = time.monotonic() + 100
    tracked.tracker.stop(deadline, drains=True)
    # Its share was a tenth of a second; a machine that is busy may add seconds.
    assert deadline - time.monotonic() > 50
    assert process.launch.cancelled


def test_release_ends_the_jobs_and_closes_the_endpoint(
    drained: tuple[Tracked, FakeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_tracker, "_RELEASE_S", 60.0)
    tracked, process = drained
    process.on_message = lambda _message: process.launch.end()
    before = time.monotonic()
    tracked.tracker.release()
    assert time.monotonic() - before < 20
    assert process.received.await_one(ReleaseReceiver)
    assert not process.launch.cancelled
    with pytest.raises(Exception, match="no answer"):
        Client(process.task.driver.location, tracked.tracker.reader.token, 200).ask(BlocksLost([]), Reply)


def test_a_job_that_does_not_end_is_cancelled(
    drained: tuple[Tracked, FakeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked, process = drained
    monkeypatch.setattr("penstock.track.receiver_tracker._RELEASE_S", 0.05)
    tracked.tracker.release()
    assert process.launch.cancelled


def test_block_after_the_last_batch_is_refused(drained: tuple[Tracked, FakeProcess]) -> None:
    _tracked, process = drained
    late = process.add(8)
    assert (late.accepted, late.reason) == (False, "the application is stopping: no batch would process the blocks")


def test_blocks_that_the_last_batches_miss_are_counted(drained: tuple[Tracked, FakeProcess]) -> None:
    tracked, process = drained
    driver = Client(process.task.driver.location, tracked.tracker.reader.token, 10_000)
    driver.ask(BlocksLost([LostBlock("input-0-1-7", 0, 10, "its host is gone")]), Reply)
    assert "10 records" in tracked.events.await_one(ReceiverError).receiverInfo.lastErrorMessage
    assert tracked.tracker.receiver_infos()[0].lost_records == 10


def test_stop_waits_for_a_restarting_receiver_to_flush(tracked: Tracked) -> None:
    process = tracked.registered()
    process.deregister("Restarting receiver with delay 30000 ms: again")
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + 30, drains=True)
        process.received.await_one(StopReceiver)
        tracked.settle()
        # Holds the race open: no event reports that the tracker still waits.
        assert not tracked.tracker._tracked.await_end(0, 0)
        assert process.add(1).accepted
        process.deregister("Stopped by driver", ended=True)
        stopping.result(timeout=10)
    process.launch.end()


def test_end_of_an_earlier_launch_does_not_end_the_current_one(tracked: Tracked) -> None:
    tracked.registered().launch.end(RuntimeError("lost"))
    tracked.relaunch()
    second = tracked.registered(2)
    second.deregister("too late", epoch=1, ended=True)
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + 30, drains=True)
        second.received.await_one(StopReceiver)
        tracked.settle()
        # Holds the race open: no event reports that the tracker still waits.
        assert not tracked.tracker._tracked.await_end(0, 0)
        second.launch.end()
        stopping.result(timeout=10)


def test_release_is_harmless_when_repeated_and_without_a_start(make_tracker: MakeTracker) -> None:
    tracked = make_tracker()
    tracked.tracker.release()
    tracked.tracker.release()


def test_messages_that_cannot_be_delivered_have_one_line_in_the_log(
    tracked: Tracked, caplog: pytest.LogCaptureFixture
) -> None:
    process = tracked.registered()
    connection = tracked.connection()
    process.endpoint.stop()
    lost: list[object] = []
    # The tracker would send a stop again.
    connection._undelivered = lambda _connection, message: lost.append(message)
    for _ in range(5):
        connection.send(StopReceiver("Stopped by driver"), urgent=True)
    wait_for(lambda: len(lost) == 5, "all have failed")
    assert caplog.text.count("message not delivered to receiver") == 1
