"""``ReceiverTracker``: launches, registrations, accepted blocks and commands; without Spark.

A long file, because all of it is about the tracker's one surface.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import raiser

from penstock import Receiver, ReceiverInfo, SourceStatus, StoredBlock
from penstock.errors import ConfigurationError, WireError
from penstock.listen.events import ReceiverError, ReceiverStarted, ReceiverStopped
from penstock.receive.messages import (
    AddBlocks,
    CleanUpBlocks,
    DeregisterReceiver,
    Registered,
    RegisterReceiver,
    StopReceiver,
    UpdateRateLimit,
    launch_name,
)
from penstock.spark import cluster
from penstock.track import receiver_launcher, receiver_tracker
from penstock.wire.client import Client
from penstock.wire.json_codec import Reply

if TYPE_CHECKING:
    from tests.helpers import Gate
    from tests.track.conftest import Tracked

MakeTracker = Callable[..., "Tracked"]
SilentClass = type[Receiver[Any]]


def stored(tracked: Tracked, batch_time_ms: int, stream_id: int = 0) -> list[str]:
    """The names of the blocks that a batch would have."""
    tracked.tracker.blocks.allocate_blocks_to_batch(batch_time_ms)
    return [block.block_id for block in tracked.tracker.blocks.blocks_of_batch(batch_time_ms, stream_id)]


# -- starting --


def test_each_receiver_is_launched(make_tracker: MakeTracker, silent: SilentClass) -> None:
    tracked = make_tracker([silent(), silent(), silent()], conf={"spark.streaming.blockInterval": "50ms"})
    tracked.tracker.start()
    tracked.launch(3)
    assert [launch.started for launch in tracked.launches] == [True] * 3
    assert [(launch.task.stream_id, launch.task.epoch) for launch in tracked.launches] == [(0, 1), (1, 1), (2, 1)]
    task = tracked.launch().task
    assert task.driver.run_id.startswith("app-1-")
    assert task.driver.location.startswith("grpc://127.0.0.1:")
    assert "spark.streaming.blockInterval" in repr(task.settings)


def test_without_receivers_there_is_nothing_to_do(make_tracker: MakeTracker) -> None:
    tracked = make_tracker([], master="local[1]")
    tracked.tracker.start()
    assert tracked.tracker.receiver_infos() == {}
    tracked.tracker.stop(time.monotonic())
    assert tracked.launches == []


def test_a_receiver_is_launched_where_it_prefers(make_tracker: MakeTracker) -> None:
    class Choosy(Receiver[Any]):
        def onStart(self) -> None:
            """Nothing to start."""

        def preferredLocation(self) -> str:
            return "host-b"

    tracked = make_tracker([Choosy()])
    tracked.tracker.start()
    assert tracked.launch().hosts == ("host-b",)


@pytest.mark.parametrize(
    ("master", "receivers", "says"),
    [
        ("local", 1, "master local has 1 core and the program 1 receiver: .* Use local[2] or more."),
        ("local[1]", 1, "master local[1] has 1 core and the program 1 receiver: .* Use local[2] or more."),
        ("local[2]", 2, "master local[2] has 2 cores and the program 2 receivers: .* Use local[3] or more."),
        (
            "local-cluster[2,1,1024]",
            2,
            "has 2 cores and the program 2 receivers: .* Have executors with 3 cores in all.",
        ),
        ("local[1,4]", 1, "master local[1,4] has 1 core"),
    ],
)
def test_too_few_cores_are_refused_with_the_reason(
    make_tracker: MakeTracker, silent: SilentClass, master: str, receivers: int, says: str
) -> None:
    tracked = make_tracker([silent() for _ in range(receivers)], master=master)
    with pytest.raises(ConfigurationError, match=says.replace("[", r"\[").replace("]", r"\]")):
        tracked.launcher.check()


@pytest.mark.parametrize("master", ["local[2]", "local[3,4]", "local-cluster[1,2,1024]", "spark://host:7077", "yarn"])
def test_enough_cores_or_cores_that_come_and_go_are_fine(make_tracker: MakeTracker, master: str) -> None:
    tracked = make_tracker(master=master)
    tracked.launcher.check()
    tracked.tracker.start()
    assert tracked.launch().started


def test_on_other_machines_executors_reach_the_driver_by_its_name(
    make_tracker: MakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked = make_tracker(master="spark://host:7077")
    driver = {"spark.driver.host": "127.0.0.9", "spark.driver.bindAddress": "127.0.0.1"}
    monkeypatch.setattr(tracked.sc, "conf", driver)
    tracked.tracker.start()
    assert tracked.launch().task.driver.location.startswith("grpc://127.0.0.9:")


class Unpicklable(Receiver[Any]):
    def __init__(self) -> None:
        self.host = "fine"
        self.connection = threading.Lock()

    def onStart(self) -> None:
        """Nothing to start."""


def test_unpicklable_receiver_is_refused_naming_the_attribute(make_tracker: MakeTracker, silent: SilentClass) -> None:
    tracked = make_tracker([silent(), Unpicklable()])
    with pytest.raises(ConfigurationError, match=r"receiver Unpicklable of stream 1 .* 'connection' \(lock\)"):
        tracked.launcher.check()


# -- registration --


def test_registered_receiver_is_in_the_infos(tracked: Tracked) -> None:
    process = tracked.process()
    assert tracked.tracker.receiver_infos() == {0: ReceiverInfo(0, "Silent-0", False, "", "")}
    registered = process.register()
    assert registered == Registered(True, desired=UpdateRateLimit(None, 0))
    info = ReceiverInfo(0, "Silent-0", True, "host-a", "1")
    assert tracked.events.entries == [ReceiverStarted(info)]
    assert tracked.tracker.receiver_infos() == {0: info}


def test_status_of_a_source_is_in_the_info_of_the_launch_that_reported_it(tracked: Tracked) -> None:
    process = tracked.registered()

    def source() -> SourceStatus | None:
        # The loop has handled earlier reports when it answers this one.
        process.report("an error")
        return tracked.tracker.receiver_infos()[0].source

    assert process.add(source=SourceStatus(3)).accepted
    assert source() == SourceStatus(3)
    assert process.add(0, source=SourceStatus(2)).accepted
    assert source() == SourceStatus(2)
    # Another receiver of the program may have no such source.
    assert process.add(1).accepted
    assert source() == SourceStatus(2)
    process.add(epoch=0, source=SourceStatus(99))
    assert source() == SourceStatus(2)
    process.deregister("Restarting receiver")
    assert tracked.tracker.receiver_infos()[0].source is None
    process.register()
    assert source() == SourceStatus(2)
    process.launch.end(OSError("died"))
    tracked.events.await_count(ReceiverStopped, 2)
    tracked.relaunch()
    process = tracked.registered(2)
    assert source() is None


@pytest.mark.parametrize(("stream_id", "epoch"), [(1, 1), (-1, 1), (0, 0), (0, 2)])
def test_a_registration_of_another_stream_or_launch_is_refused(tracked: Tracked, stream_id: int, epoch: int) -> None:
    refused = tracked.process().register(stream_id=stream_id, epoch=epoch)
    assert (refused.accepted, refused.reason) == (
        False,
        f"launch {epoch} of stream {stream_id} was replaced, or has ended",
    )
    assert tracked.events.entries == []


def test_slow_location_lookup_delays_no_other_receiver(
    make_tracker: MakeTracker, silent: SilentClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked = make_tracker([silent(), silent()])
    tracked.tracker.start()
    first, second = tracked.registered(1), tracked.process(2)
    asked, gate = threading.Event(), threading.Event()

    def running_task(*_arguments: object) -> None:
        asked.set()
        gate.wait(60)

    monkeypatch.setattr(cluster, "running_task", running_task)
    with ThreadPoolExecutor() as pool:
        registering = pool.submit(second.register)
        assert asked.wait(10)
        assert first.report("something happened").accepted
        assert not registering.done()
        monkeypatch.setattr(receiver_launcher, "_LOCATION_PAUSE_S", 0.0)
        gate.set()
        assert registering.result(timeout=10).accepted


# -- blocks --


def test_blocks_are_taken_in_order_and_once(tracked: Tracked) -> None:
    process = tracked.registered()
    for numbers in ((0, 1), (2,), (1, 0), (2,)):
        assert process.add(*numbers).accepted
    assert stored(tracked, 100) == ["input-0-1-0", "input-0-1-1", "input-0-1-2"]


def test_blocks_of_an_older_launch_another_stream_or_nobody_are_refused(
    make_tracker: MakeTracker, silent: SilentClass
) -> None:
    tracked = make_tracker([silent(), silent()])
    tracked.tracker.start()
    process = tracked.registered(1)
    for epoch in (0, 2):
        assert process.add(0, epoch=epoch).reason == f"launch {epoch} of stream 0 was replaced, or has ended"
    assert process.add(0, stream_id=1).reason == "the blocks belong to another stream"
    assert not process.add(0, stream_id=9).accepted
    assert stored(tracked, 100) == stored(tracked, 200, 1) == []


def test_blocks_in_the_name_of_another_stream_are_refused(tracked: Tracked) -> None:
    process = tracked.registered()
    foreign = StoredBlock("input-7-1-0", 7, 10, 1000, "/blocks/7")
    reply = process.driver.ask(AddBlocks(0, 1, [foreign]), Reply)
    assert reply == Reply(accepted=False, reason="the blocks belong to another stream")
    assert tracked.tracker.blocks.state.retained() == []


def test_blocks_pause_a_receiver_by_the_size_of_its_disk(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf={"spark.penstock.blocks.maxUnprocessed": "50%"})
    tracked.tracker.start()
    process = tracked.process()
    message = RegisterReceiver(0, 1, "Silent", process.endpoint.port, process.address, "", disk_bytes=1999)
    assert process.driver.ask(message, Registered).accepted
    assert process.add(0).accepted
    assert process.received.await_one(UpdateRateLimit).paused


def test_blocks_that_come_after_deregistration_are_taken(tracked: Tracked) -> None:
    # A report that is repeated while the receiver is backing off.
    process = tracked.registered()
    process.deregister("Restarting receiver with delay 2000 ms: again")
    assert process.add(0).accepted
    assert stored(tracked, 100) == ["input-0-1-0"]


# -- errors and ends --


def test_receiver_whose_process_dies_is_reported_and_relaunched(tracked: Tracked) -> None:
    process = tracked.registered()
    process.close()
    process.launch.end(RuntimeError("Python worker exited unexpectedly (crashed)"))
    error = tracked.events.await_one(ReceiverError)
    assert "Python worker exited unexpectedly" in error.receiverInfo.lastErrorMessage
    assert not tracked.events.await_one(ReceiverStopped).receiverInfo.active
    tracked.relaunch()
    again = tracked.registered(2)
    assert again.task.epoch == 2
    assert tracked.events.names == ["ReceiverStarted", "ReceiverError", "ReceiverStopped", "ReceiverStarted"]


# -- rates --


def test_errors_of_the_loops_are_logged_and_the_loops_continue(
    tracked: Tracked, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    process = tracked.registered()
    # The faults are injected: no public method fails on the loop.
    tracked.connection().send(object())  # no message: it has no JSON
    tracked.tracker._tracked.loop.post(fail)
    tracked.tracker.send_rate_update(0, 70)
    assert process.received.await_one(UpdateRateLimit).rate == 70
    assert "message to receiver failed" in caplog.text
    assert "tracker event failed" in caplog.text


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan])
def test_invalid_rate_is_ignored(tracked: Tracked, rate: float) -> None:
    process = tracked.registered()
    tracked.tracker.send_rate_update(0, rate)
    tracked.tracker.send_rate_update(7, 10.0)
    tracked.settle()
    assert process.received.entries == []
    assert tracked.tracker.rate_limit(0) is None


def test_configured_rate_applies_until_an_estimate(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(
        conf={"spark.streaming.receiver.maxRate": "100", "spark.streaming.backpressure.initialRate": "30"}
    )
    tracked.tracker.start()
    tracked.launch()
    assert tracked.tracker.rate_limit(0) == 30
    tracked.tracker.send_rate_update(0, 70.0)
    tracked.settle()
    assert tracked.tracker.rate_limit(0) == 70
    tracked.tracker.send_rate_update(0, 500.0)
    tracked.settle()
    assert tracked.tracker.rate_limit(0) == 100


# -- deleting --


def test_unneeded_blocks_are_deleted_on_their_host(tracked: Tracked) -> None:
    process = tracked.registered()
    process.add(0, 1)
    stored(tracked, 100)
    process.add(2)
    stored(tracked, 200)
    tracked.tracker.clean_up(200, delete=True)
    assert process.received.await_one(CleanUpBlocks) == CleanUpBlocks(["input-0-1-0", "input-0-1-1"])
    tracked.tracker.clean_up(200, delete=True)
    tracked.settle()
    assert len(process.received.entries) == 1


def test_block_that_no_batch_needs_has_no_location(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(master="spark://elsewhere:7077")
    tracked.tracker.start()
    tracked.registered().add(0)
    tracked.tracker.allocate_blocks_to_batch(100)
    blocks = tracked.tracker.blocks.blocks_of_batch(100, 0)
    assert [host for host, _size, _reference in tracked.located(blocks)] == ["host-a"]
    tracked.tracker.clean_up(200, delete=False)
    assert [host for host, _size, _reference in tracked.located(blocks)] == [""]


def test_message_of_an_unknown_stream_is_refused(tracked: Tracked) -> None:
    process = tracked.registered()
    message = DeregisterReceiver(7, 1, "done", "")
    token = tracked.launcher.token.derive(launch_name(7, 1))
    with closing(Client(process.task.driver.location, token, 10_000)) as other:
        reply = other.ask(message, Reply)
    assert reply == Reply(accepted=False, reason="launch 1 of stream 7 was replaced, or has ended")


def test_answer_that_the_loop_does_not_give_in_time_is_an_error(make_tracker: MakeTracker, gate: Gate) -> None:
    tracked = make_tracker(conf={"spark.penstock.wire.timeout": "100ms"})
    tracked.tracker.start()
    process = tracked.registered()
    tracked.receivers.loop.post(gate)
    assert gate.reached.wait(10)
    with pytest.raises(WireError) as error:
        process.report("odd record")
    # The driver itself answers; the receiver would have waited for ten seconds.
    assert "no answer" not in str(error.value)
    gate.open()


def test_error_of_the_loop_is_the_answer(tracked: Tracked, monkeypatch: pytest.MonkeyPatch) -> None:
    process = tracked.registered()
    with monkeypatch.context() as patch:
        patch.setattr(tracked.receivers, "step", raiser(RuntimeError("never seen before")))
        with pytest.raises(WireError, match="never seen before"):
            process.report("odd record")


def test_clean_up_without_delete_keeps_the_files(tracked: Tracked) -> None:
    process = tracked.registered()
    process.add(0)
    stored(tracked, 100)
    tracked.tracker.clean_up(200, delete=False)
    tracked.settle()
    assert process.received.entries == []
    assert tracked.tracker.blocks.blocks_of_batch(100, 0) == []


def test_undeleted_blocks_are_deleted_by_the_relaunched_receiver(tracked: Tracked) -> None:
    process = tracked.registered()
    process.add(0, 1)
    stored(tracked, 100)
    process.add(2)
    stored(tracked, 200)
    # It is there and cannot be reached; then it is known to be gone.
    process.endpoint.stop()
    tracked.tracker.clean_up(200, delete=True)
    tracked.settle()
    process.launch.end(RuntimeError("lost"))
    tracked.relaunch()
    tracked.tracker.clean_up(300, delete=True)
    tracked.settle()
    again = tracked.registered(2)
    deleted = ["input-0-1-0", "input-0-1-1", "input-0-1-2"]

    def cleaned_up() -> list[str]:
        messages = [message for message in again.received.entries if isinstance(message, CleanUpBlocks)]
        return sorted(block_id for message in messages for block_id in message.block_ids)

    for number in range(1, 4):
        again.received.await_one(CleanUpBlocks, number)
        if cleaned_up() == deleted:
            break
    tracked.settle()
    assert cleaned_up() == deleted


# -- stopping --


def test_stop_waits_for_all_receivers(make_tracker: MakeTracker, silent: SilentClass) -> None:
    tracked = make_tracker([silent(), silent()])
    tracked.tracker.start()
    tracked.launch(2)
    processes = [tracked.registered(1), tracked.registered(2)]
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + 30)
        for process in processes:
            assert process.received.await_one(StopReceiver) == StopReceiver("Stopped by driver")
            # What is flushed now is taken.
            assert process.add(0).accepted
            assert process.deregister("Stopped by driver").accepted
        processes[0].launch.end()
        tracked.settle()
        # Holds the race open: no event reports that the tracker still waits.
        ended = [tracked.tracker._tracked.await_end(each.task.stream_id, 0) for each in processes]
        assert ended == [True, False]
        assert not stopping.done()
        processes[1].launch.end()
        stopping.result(timeout=10)
    assert stored(tracked, 100) == ["input-0-1-0"]
    assert tracked.events.names == ["ReceiverStarted"] * 2 + ["ReceiverStopped"] * 2
    assert len(tracked.launches) == 2


def test_undelivered_stop_is_sent_again(tracked: Tracked, monkeypatch: pytest.MonkeyPatch) -> None:
    process = tracked.registered()
    client, failed = tracked.connection().client, list[object]()
    asked = client.ask

    def ask(message: object, reply_kind: type[Any]) -> Any:
        if len(failed) < 2:
            failed.append(message)
            raise WireError("connection reset")
        return asked(message, reply_kind)

    monkeypatch.setattr(client, "ask", ask)
    monkeypatch.setattr(receiver_tracker, "_RESEND_STOP_S", 0.01)
    process.on_message = lambda _message: process.launch.end()
    tracked.tracker.stop(time.monotonic() + 10)
    assert process.received.entries == [*failed[:1]]
    assert not process.launch.cancelled


def test_job_of_a_receiver_that_does_not_stop_is_cancelled(tracked: Tracked) -> None:
    process = tracked.registered()
    tracked.tracker.stop(time.monotonic() + 0.05)
    assert process.received.await_one(StopReceiver)
    assert process.launch.cancelled


def test_unregistered_launch_is_cancelled_at_a_stop(tracked: Tracked) -> None:
    before = time.monotonic()
    tracked.tracker.stop(before + 30)
    assert time.monotonic() - before < 10
    assert tracked.launch().cancelled


def test_stop_that_the_loop_does_not_handle_is_logged_and_ends_the_jobs(
    tracked: Tracked, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def time_out(*_arguments: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(tracked.tracker, "_on_loop", time_out)
    tracked.tracker.stop(time.monotonic())
    assert "stop not delivered: tracker loop blocked" in caplog.text
    assert tracked.launch().cancelled


def test_no_relaunch_after_a_stop(tracked: Tracked) -> None:
    process = tracked.registered()
    process.launch.end(RuntimeError("lost"))
    tracked.await_waiters()
    tracked.tracker.stop(time.monotonic() + 5)
    tracked.clock.advance(60_000)
    assert len(tracked.launches) == 1
    tracked.tracker.send_rate_update(0, 5.0)
    tracked.tracker.clean_up(10**9, delete=True)


def test_a_second_stop_is_harmless(tracked: Tracked) -> None:
    tracked.tracker.stop(time.monotonic())
    tracked.tracker.stop(time.monotonic())


def test_a_tracker_that_never_started_can_be_stopped(make_tracker: MakeTracker) -> None:
    make_tracker().tracker.stop(time.monotonic())
