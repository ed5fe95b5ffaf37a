"""The end of receivers: what a stop waits for, what a release leaves, and what is deleted."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from tests.helpers import Gate, do_nothing, run_in_background, wait_for

from penstock.listen.events import ReceiverStopped
from penstock.receive.messages import ReleaseReceiver, StopReceiver, UpdateRateLimit
from penstock.spark import cluster
from penstock.track import receiver_launcher, receiver_tracker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.track.conftest import FakeLaunch, Tracked

MakeTracker = Callable[..., "Tracked"]
REMOTE = "spark://elsewhere:7077"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_tracker, "_RELEASE_S", 0.5)


def ends_later(launch: FakeLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the job end some time after it was cancelled, as in Spark."""

    def cancel() -> None:
        launch.cancelled = True
        threading.Timer(0.05, launch.end).start()

    monkeypatch.setattr(launch, "cancel", cancel)


def test_stop_waits_for_the_end_of_a_cancelled_job(tracked: Tracked, monkeypatch: pytest.MonkeyPatch) -> None:
    process = tracked.registered()
    ends_later(process.launch, monkeypatch)
    tracked.tracker.stop(time.monotonic())
    assert process.launch.cancelled
    # No event says that the receiver can hold no more records.
    assert tracked.receivers.records[0].launch is None


def test_stop_waits_no_longer_than_its_deadline(tracked: Tracked, monkeypatch: pytest.MonkeyPatch) -> None:
    tracked.registered()
    waits: list[float] = []
    await_end = tracked.receivers.await_end

    def noted(stream_id: int, timeout_s: float) -> bool:
        waits.append(timeout_s)
        return await_end(stream_id, timeout_s)

    monkeypatch.setattr(tracked.receivers, "await_end", noted)
    tracked.tracker.stop(time.monotonic() + 0.05)
    # The last one is for the end of the cancelled job.
    assert all(timeout_s <= 0.05 for timeout_s in waits[:-1])
    assert len(waits) >= 2


def cancel_after_the_stop(process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the job cancelled only after the stop has arrived: with a deadline in the past, either may come first."""
    cancel = process.launch.cancel

    def cancel_late() -> None:
        assert process.received.await_one(StopReceiver)
        cancel()

    monkeypatch.setattr(process.launch, "cancel", cancel_late)


def test_stop_after_its_deadline_asks_to_serve_blocks_for_the_release(
    make_tracker: MakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_tracker, "_RELEASE_S", 0.25)
    tracked = make_tracker(master=REMOTE)
    tracked.tracker.start()
    process = tracked.registered()
    cancel_after_the_stop(process, monkeypatch)
    tracked.tracker.stop(time.monotonic() - 100, drains=True)
    assert process.received.await_one(StopReceiver).serve_ms == 250


def test_stop_ends_the_search_for_an_executor(tracked: Tracked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_launcher, "_LOCATION_PAUSE_S", 60.0)
    searching = threading.Event()
    monkeypatch.setattr(cluster, "running_task", lambda _sc, _group: searching.set())
    process = tracked.process()
    registering = run_in_background(process.register)
    assert searching.wait(10)
    tracked.tracker.stop(time.monotonic())
    assert not registering.result(timeout=10).accepted


def test_rates_and_pauses_are_not_sent_after_a_stop(tracked: Tracked) -> None:
    process = tracked.registered()
    tracked.tracker.stop(time.monotonic())
    tracked.tracker.send_rate_update(0, 10.0)
    tracked.tracker.pause(True)
    tracked.settle()
    assert (tracked.tracker.rates(), process.received.of(UpdateRateLimit)) == ({}, [])


def test_release_stops_receivers_that_still_run(tracked: Tracked, monkeypatch: pytest.MonkeyPatch) -> None:
    process = tracked.registered()
    cancel_after_the_stop(process, monkeypatch)
    tracked.tracker.release()
    assert process.launch.cancelled
    assert not tracked.tracker.receiver_infos()[0].active


def test_release_overtakes_messages_that_wait_for_an_answer(
    make_tracker: MakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked, gate = make_tracker(master=REMOTE), Gate()
    tracked.tracker.start()
    process = tracked.registered()
    monkeypatch.setattr(process.launch, "cancel", do_nothing)

    def on_message(message: object) -> None:
        if isinstance(message, UpdateRateLimit):
            gate()

    process.on_message = on_message
    tracked.tracker.send_rate_update(0, 10.0)
    assert gate.reached.wait(10)
    releasing = run_in_background(tracked.tracker.release)
    assert process.received.await_one(ReleaseReceiver)
    gate.open()
    process.launch.end()
    releasing.result(timeout=30)


def test_release_waits_for_jobs_before_and_after_it_cancels_them(
    make_tracker: MakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked = make_tracker(master=REMOTE)
    tracked.tracker.start()
    process = tracked.registered()
    process.deregister("done", ended=True)
    tracked.settle()
    monkeypatch.setattr(process.launch, "cancel", do_nothing)
    tracked.tracker.stop(time.monotonic())
    monkeypatch.undo()
    monkeypatch.setattr(receiver_tracker, "_RELEASE_S", 60.0)

    # The task ends some time after its release.
    process.on_message = lambda message: (
        threading.Timer(0.1, process.launch.end).start() if isinstance(message, ReleaseReceiver) else None
    )
    tracked.tracker.release()
    assert not process.launch.cancelled


def test_release_waits_for_the_end_of_a_cancelled_job(
    make_tracker: MakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_tracker, "_RELEASE_S", 0.05)
    tracked = make_tracker(master=REMOTE)
    tracked.tracker.start()
    process = tracked.registered()
    finished: list[bool] = []
    finish = process.launch.finish

    def noted(timeout_s: float) -> bool:
        finished.append(finish(timeout_s))
        return finished[-1]

    with monkeypatch.context() as patch:
        patch.setattr(process.launch, "cancel", do_nothing)
        tracked.tracker.stop(time.monotonic())
    monkeypatch.setattr(process.launch, "finish", noted)
    tracked.tracker.release()
    # The cancelled job ended at once.
    assert process.launch.cancelled
    assert finished == [False, True]


def test_port_is_closed_after_a_release(tracked: Tracked) -> None:
    address = urlsplit(tracked.launch().task.driver.location)
    assert (address.hostname, address.port) != (None, None)
    with socket.create_connection((str(address.hostname), int(address.port or 0)), 10):
        pass
    tracked.tracker.release()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((str(address.hostname), int(address.port or 0)), 10)


def test_receiver_whose_job_never_ends_is_reported_stopped(tracked: Tracked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_tracker, "_RELEASE_S", 0.01)
    process = tracked.registered()
    connection = tracked.connection()
    closed: list[bool] = []
    monkeypatch.setattr(connection, "close", lambda: closed.append(True))
    with monkeypatch.context() as patch:
        patch.setattr(process.launch, "cancel", do_nothing)
        tracked.tracker.stop(time.monotonic())
        assert tracked.events.of(ReceiverStopped) == []
        tracked.tracker.release()
    assert len(tracked.events.of(ReceiverStopped)) == 1
    assert not tracked.tracker.receiver_infos()[0].active
    assert closed


@pytest.mark.parametrize(("master", "deletes"), [("local[8]", True), (REMOTE, False)])
def test_files_of_this_machine_are_deleted(
    make_tracker: MakeTracker, tmp_path: Path, master: str, deletes: bool
) -> None:
    tracked = make_tracker(master=master)
    tracked.tracker.start()
    folder = tmp_path / tracked.launch().task.driver.run_id
    folder.mkdir()
    tracked.registered(directory=str(folder)).store(0)
    assert list(folder.iterdir())
    tracked.tracker.release()
    tracked.tracker.delete_files()
    assert folder.exists() is not deletes


def test_ended_job_is_forgotten(tracked: Tracked, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "penstock")
    process = tracked.registered()
    assert "receiver registered" in caplog.text
    # A program may relaunch its receivers for years.
    jobs = tracked.receivers.jobs
    assert list(jobs) == [(0, 1)]
    process.launch.end()
    wait_for(lambda: not jobs, "no job is known")


def test_driver_listens_where_receivers_are(make_tracker: MakeTracker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "driver_bind_address", lambda _sc: "127.0.0.2")
    for master, host in (("local[8]", "127.0.0.1"), (REMOTE, "127.0.0.2")):
        tracked = make_tracker(master=master)
        tracked.tracker.start()
        port = int(urlsplit(tracked.launch().task.driver.location).port or 0)
        socket.create_connection((host, port), 10).close()
