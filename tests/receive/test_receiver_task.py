"""``ReceiverTask``: one launch, with real endpoints, a real store and no Spark."""

from __future__ import annotations

import os
import pickle
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.ipc
import pytest
from attrs import evolve
from pyspark import TaskContext
from tests.helpers.fake_tracker import FakeTracker

from penstock import Block, Receiver
from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.block_directories import Process, claim
from penstock.blocks.block_transfer import fetch_block
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.errors import WireError
from penstock.receive.messages import (
    AddBlocks,
    CleanUpBlocks,
    DeregisterReceiver,
    RegisterReceiver,
    ReleaseReceiver,
    StopReceiver,
    UpdateRateLimit,
)
from penstock.receive.receiver_task import local_directory
from penstock.version import __version__
from penstock.wire.json_codec import Reply

if TYPE_CHECKING:
    from tests.helpers import EventLog, Gate

Background = Callable[[Callable[[], Any]], "Future[Any]"]


class Counting(Receiver[int]):
    """Stores three numbers when it starts, one more when it stops."""

    def onStart(self) -> None:
        self.store_all([1, 2, 3], {"offset": 3})

    def onStop(self) -> None:
        self.store(4)


class Failing(Receiver[int]):
    def onStart(self) -> None:
        raise ValueError("the receiver's own")

    def onStop(self) -> None:
        """Nothing to stop."""


class StopsItself(Receiver[int]):
    def onStart(self) -> None:
        self.stop("no use", ValueError("the receiver's own"))

    def onStop(self) -> None:
        """Nothing to stop."""


@pytest.fixture
def tracker(log: EventLog) -> Iterator[FakeTracker]:
    tracker = FakeTracker(log)
    yield tracker
    tracker.endpoint.stop()


@pytest.fixture(autouse=True)
def blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the task's blocks."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "penstock" / "app-1"


def read(path: str) -> list[Any]:
    with pyarrow.ipc.open_file(path) as reader:
        return list(arrow_form.records(map(reader.get_batch, range(reader.num_record_batches))))


def test_task_runs_from_registration_to_deregistration(
    tracker: FakeTracker, log: EventLog, blocks: Path, background: Background
) -> None:
    def stop() -> None:
        log.await_count(AddBlocks)
        tracker.client().ask(StopReceiver("Stopped by driver"), Reply)

    stopping = background(stop)
    task = pickle.loads(pickle.dumps(tracker.task(Counting())))
    assert list(task(0, [])) == []
    stopping.result(timeout=10)
    assert log.names == ["RegisterReceiver", "AddBlocks", "AddBlocks", "DeregisterReceiver"]
    first, last = (message.blocks[0] for message in log.of(AddBlocks))
    assert (first.stream_id, first.num_records, first.metadata) == (2, 3, {"offset": 3})
    assert Path(first.path).parent == blocks
    assert (read(first.path), read(last.path)) == ([1, 2, 3], [4])
    assert log.of(RegisterReceiver)[0].receiver_type == "Counting"
    assert log.of(DeregisterReceiver) == [DeregisterReceiver(2, 5, "Stopped by driver", "", flushed=1, ended=True)]


def test_while_it_runs_it_serves_cleans_up_and_changes_its_rate(
    tracker: FakeTracker, log: EventLog, blocks: Path, background: Background
) -> None:
    receiver = Counting()

    def drive() -> tuple[list[Any], list[str], float | None]:
        log.await_count(AddBlocks)
        client = tracker.client()
        block = log.of(AddBlocks)[0].blocks[0]
        reference = BlockReference(block.block_id, "/elsewhere", 3, client.location)
        fetched = list(arrow_form.records(fetch_block(reference, reference.source, tracker.token)))
        client.ask(UpdateRateLimit(12.5, 1), Reply)
        rate = receiver.rate_limit
        client.ask(CleanUpBlocks([block.block_id, "input-2-5-99"]), Reply)
        left = [path.name for path in blocks.glob("*.arrow")]
        client.ask(StopReceiver("enough"), Reply)
        return fetched, left, rate

    driven = background(drive)
    list(tracker.task(receiver)(0, []))
    assert driven.result(timeout=10) == ([1, 2, 3], [], 12.5)


def test_task_serves_and_deletes_blocks_of_other_launches_on_its_host(
    tracker: FakeTracker, log: EventLog, background: Background, blocks: Path
) -> None:
    ids = ["input-9-1-0", "input-2-4-7"]
    for block_id in ids:
        LocalBlockHandler(blocks).store(Block(block_id, 9, 1, arrow_form.encode([block_id])))

    def drive() -> tuple[list[Any], bool]:
        client = tracker.client()
        assert log.of(RegisterReceiver)[0].directory == str(blocks)
        references = [BlockReference(block_id, "/elsewhere", 1, client.location) for block_id in ids]
        fetched = [
            next(arrow_form.records(fetch_block(reference, reference.source, tracker.token)))
            for reference in references
        ]
        client.ask(CleanUpBlocks(ids), Reply)
        left = any((blocks / f"{block_id}.arrow").exists() for block_id in ids)
        client.ask(StopReceiver("enough"), Reply)
        return fetched, left

    driven = background(drive)
    list(tracker.task(Counting())(0, []))
    assert driven.result(timeout=10) == (ids, False)


def test_second_stop_extends_the_time_of_serving(tracker: FakeTracker, log: EventLog, background: Background) -> None:
    def drive() -> bool:
        log.await_count(AddBlocks)
        client = tracker.client()
        client.ask(StopReceiver("moves to another executor", serve_ms=2000), Reply)
        log.await_count(DeregisterReceiver)
        client.ask(StopReceiver("Stopped by driver", serve_ms=60_000), Reply)
        serves = not ended.wait(2.2)
        client.ask(ReleaseReceiver(), Reply)
        return serves

    ended = threading.Event()
    driven = background(drive)
    list(tracker.task(Counting())(0, []))
    ended.set()
    assert driven.result(timeout=10)


def test_second_stop_does_not_shorten_the_time_of_serving(
    tracker: FakeTracker, log: EventLog, background: Background, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drive() -> bool:
        log.await_count(AddBlocks)
        client = tracker.client()
        for serve_ms in (60_000, 0):
            client.ask(StopReceiver("enough", serve_ms), Reply)
        gate.open()
        log.await_count(DeregisterReceiver)
        serves = not ended.wait(0.3)
        client.ask(ReleaseReceiver(), Reply)
        return serves

    monkeypatch.setattr(Counting, "onStop", gate)
    ended = threading.Event()
    driven = background(drive)
    list(tracker.task(Counting())(0, []))
    ended.set()
    assert driven.result(timeout=10)


def test_task_serves_its_blocks_until_released(tracker: FakeTracker, log: EventLog, background: Background) -> None:
    def drive() -> tuple[bool, list[Any]]:
        log.await_count(AddBlocks)
        client = tracker.client()
        client.ask(StopReceiver("Stopped by driver", serve_ms=60_000), Reply)
        log.await_count(DeregisterReceiver)
        fetched = []
        for message in log.of(AddBlocks):
            reference = BlockReference(message.blocks[0].block_id, "/elsewhere", 1, client.location)
            fetched += list(arrow_form.records(fetch_block(reference, reference.source, tracker.token)))
        ran = not ended.is_set()
        client.ask(ReleaseReceiver(), Reply)
        return ran, fetched

    ended = threading.Event()
    driven = background(drive)
    list(tracker.task(Counting())(0, []))
    ended.set()
    assert driven.result(timeout=10) == (True, [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("serve_ms", "fails_deregistration", "least_s"),
    [(100, False, 0.1), (60_000, True, 0.0)],
    ids=["deadline", "driver gone"],
)
def test_serving_ends_without_a_release_at_its_deadline_or_if_the_driver_is_not_notified_of_the_end(
    tracker: FakeTracker,
    log: EventLog,
    background: Background,
    serve_ms: int,
    fails_deregistration: bool,
    least_s: float,
) -> None:
    def stop() -> None:
        log.await_count(AddBlocks)
        tracker.client().ask(StopReceiver("Stopped by driver", serve_ms=serve_ms), Reply)

    tracker.fails_deregistration = fails_deregistration
    stopping = background(stop)
    before = time.monotonic()
    list(tracker.task(Counting(), {"spark.penstock.wire.timeout": "1s"})(0, []))
    stopping.result(timeout=10)
    assert least_s <= time.monotonic() - before < 30


def test_error_that_stopped_the_receiver_fails_the_task(tracker: FakeTracker, log: EventLog) -> None:
    with pytest.raises(ValueError, match="the receiver's own"):
        list(tracker.task(StopsItself())(0, []))
    assert "ValueError: the receiver's own" in log.of(DeregisterReceiver)[0].error


def test_error_of_onStart_that_the_driver_knows_does_not_fail_the_task(tracker: FakeTracker, log: EventLog) -> None:
    assert list(tracker.task(Failing())(0, [])) == []
    (ended,) = log.of(DeregisterReceiver)
    assert ended.ended
    assert "ValueError: the receiver's own" in ended.error


def test_error_of_onStart_fails_the_task_if_a_thread_is_left_running(tracker: FakeTracker, gate: Gate) -> None:
    class Leaves(Failing):
        def onStart(self) -> None:
            threading.Thread(target=gate, daemon=True).start()
            super().onStart()

    with pytest.raises(ValueError, match="the receiver's own"):
        list(tracker.task(Leaves())(0, []))
    gate.open()


def test_driver_of_another_version_is_an_error_that_names_both_versions(
    tracker: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.wire.token.__version__", "9.8.7")
    with pytest.raises(WireError, match=rf"runs Penstock {re.escape(__version__)}, its caller Penstock 9\.8\.7"):
        list(tracker.task(Counting())(0, []))
    assert tracker.log.entries == []


def test_a_retry_by_spark_does_nothing(tracker: FakeTracker, log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    class Retry:
        def attemptNumber(self) -> int:
            return 1

    monkeypatch.setattr(TaskContext, "get", Retry)
    assert list(tracker.task(Counting())(0, [])) == []
    assert log.entries == []


def test_interrupt_handler_is_restored(tracker: FakeTracker) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="the receiver's own"):
        list(tracker.task(StopsItself())(0, []))
    assert signal.getsignal(signal.SIGINT) is before


def test_the_secret_and_the_settings_are_not_printed(tracker: FakeTracker) -> None:
    task = tracker.task(Counting(), {"spark.penstock.receiver.mqtt.password": "hunter2"})
    assert tracker.token.secret not in repr(task)
    assert "hunter2" not in repr(task)


def test_block_directories_of_dead_runs_are_deleted(tracker: FakeTracker, tmp_path: Path) -> None:
    # A process that started in 1970 is gone.
    left, alive = tmp_path / "penstock" / "app-0", tmp_path / "penstock" / "app-00"
    claim(left, evolve(Process.of(os.getpid()), create_time=1.0))
    claim(alive, Process.of(os.getpid()))
    with pytest.raises(ValueError, match="the receiver's own"):
        list(tracker.task(StopsItself())(0, []))
    assert sorted(path.name for path in (tmp_path / "penstock").iterdir()) == ["app-00", "app-1"]


@pytest.mark.parametrize(
    ("given", "home"),
    [
        # Of local[n]: the process is the application.
        ("/tmp/blockmgr-1", "/tmp/blockmgr-1"),
        ("/tmp/spark-1/executor-2/blockmgr-3", "/tmp/spark-1/executor-2"),
        ("/yarn/appcache/application_1_2/blockmgr-3,/other", "/yarn/appcache/application_1_2"),
        ("/data", "/data"),
    ],
)
def test_blocks_survive_the_executor_in_the_applications_directory(
    monkeypatch: pytest.MonkeyPatch, given: str, home: str
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", given)
    assert local_directory("app-1") == Path(home) / "penstock" / "app-1"


def test_without_spark_blocks_go_to_the_users_own_temporary_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = tmp_path / f"penstock-{os.getuid()}"
    assert local_directory("app-1") == own / "penstock" / "app-1"
    assert own.stat().st_mode & 0o777 == 0o700
