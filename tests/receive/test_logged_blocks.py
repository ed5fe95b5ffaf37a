"""Receivers with a write-ahead log: retries of a write, and which blocks a launch stores and deletes."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from tests.helpers.fake_tracker import FakeTracker

from penstock import Block, Receiver, StoredBlock, hookimpl
from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.block_transfer import fetch_block
from penstock.blocks.received_block_handler import WriteAheadLogBlockHandler, stream_directory
from penstock.errors import BlockUnreachableError, StoreError
from penstock.plugins.discovery import Plugins
from penstock.receive import receiver_task
from penstock.receive.messages import (
    AddBlocks,
    CleanUpBlocks,
    DeregisterReceiver,
    RegisterReceiver,
    ReportError,
    StopReceiver,
)
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.wire.client import Client
from penstock.wire.json_codec import Reply
from penstock.wire.token import Token
from penstock.worker.block_reader import read_block

if TYPE_CHECKING:
    from tests.helpers import EventLog
    from tests.receive.conftest import FakeDriver, FakeStore, Noting

Supervise = Callable[..., ReceiverSupervisor]
Background = Callable[[Callable[[], Any]], "Future[Any]"]
Drive = Callable[["Future[Any]"], Any]
LOG = {"spark.streaming.receiver.writeAheadLog.enable": "true"}


def records(block: StoredBlock) -> list[Any]:
    reference = BlockReference(block.block_id, block.path, block.num_records, "", block.stream_id, block.checksum)
    return list(arrow_form.records(read_block(reference, Token("t"))))


# -- how often --


@pytest.mark.parametrize(
    ("conf", "tries"),
    [
        (LOG, 3),
        (LOG | {"spark.streaming.receiver.writeAheadLog.maxFailures": "1"}, 1),
        (LOG | {"spark.streaming.receiver.writeAheadLog.maxFailures": "7"}, 7),
        ({"spark.streaming.receiver.writeAheadLog.maxFailures": "1"}, 6),
    ],
    ids=["three", "one", "seven", "without the log"],
)
def test_write_is_retried_as_configured(
    supervise: Supervise,
    receiver: Noting,
    driver: FakeDriver,
    store: FakeStore,
    background: Background,
    drive: Drive,
    conf: dict[str, str],
    tries: int,
) -> None:
    supervise(receiver, conf).start()
    store.failures = 10**9
    key = "spark.streaming.receiver.writeAheadLog.maxFailures" if conf.keys() >= LOG.keys() else "storeRetries"
    with pytest.raises(
        StoreError,
        match=rf"block input-3-7-0 \(1 records\) .*could not be stored after {tries} attempts "
        rf"\(.*{key}\): .*Input/output",
    ) as caught:
        drive(background(lambda: receiver.store_all([1])))
    assert isinstance(caught.value.__cause__, OSError)
    assert (store.tries, driver.blocks, receiver.isStarted()) == (tries, [], True)
    store.failures, store.tries = tries - 1, 0
    drive(background(lambda: receiver.store_all([2])))
    assert store.tries == tries


def test_report_is_retried_as_configured(
    supervise: Supervise,
    receiver: Noting,
    driver: FakeDriver,
    store: FakeStore,
    background: Background,
    drive: Drive,
) -> None:
    supervise(receiver, LOG | {"spark.streaming.receiver.writeAheadLog.maxFailures": "1"}).start()
    driver.failures[AddBlocks] = 5
    drive(background(lambda: receiver.store_all([1])))
    assert (store.tries, len(driver.blocks)) == (1, 1)


def test_store_waits_while_the_disk_is_full(
    supervise: Supervise,
    receiver: Noting,
    store: FakeStore,
    log: EventLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    background: Background,
    drive: Drive,
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _bytes: "00000000")
    supervise(receiver, LOG | {"spark.streaming.receiver.writeAheadLog.maxFailures": "1"}).start()
    real = WriteAheadLogBlockHandler(stream_directory(str(tmp_path), 3))
    full = tmp_path / "receivedData" / "3" / ".input-3-7-0.arrow.00000000.partial"
    full.parent.mkdir(parents=True)

    def store_where_it_is_full(block: Block) -> None:
        if store.tries < 9:
            full.symlink_to("/dev/full")
        real.store(block)

    store.on_store = store_where_it_is_full
    drive(background(lambda: receiver.store_all(["a"])))
    assert store.tries == 9
    # Reported on a thread of its own.
    received = log.await_one(ReportError)
    assert received.message.startswith("the disk is full: the receiver pauses until there is room - OSError: [Errno ")
    assert [path.name for path in full.parent.iterdir()] == ["input-3-7-0.arrow"]


# -- one launch --


class Counting(Receiver[int]):
    """Stores three numbers when it starts, one more when it stops."""

    def onStart(self) -> None:
        self.store_all([1, 2, 3], {"offset": 3})

    def onStop(self) -> None:
        self.store(4)


class LoggingTracker(FakeTracker):
    """Launches receivers that store into the write-ahead log."""

    def __init__(self, log: EventLog, directory: str) -> None:
        super().__init__(log)
        self.directory = directory

    def run(self, receiver: Receiver[Any]) -> None:
        assert list(self.task(receiver, LOG, self.directory)(0, [])) == []

    def receiver(self) -> Client:
        """A client of the receiver that has stored a block."""
        self.log.await_count(AddBlocks)
        return self.client()


@pytest.fixture(autouse=True)
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where blocks would go without the log."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path / "local"


@pytest.fixture
def tracker(log: EventLog, tmp_path: Path) -> Iterator[LoggingTracker]:
    tracker = LoggingTracker(log, stream_directory(str(tmp_path / "check"), 2))
    yield tracker
    tracker.endpoint.stop()


def test_blocks_are_in_the_log_and_nowhere_else(
    tracker: LoggingTracker, log: EventLog, tmp_path: Path, local: Path, background: Background
) -> None:
    stopping = background(lambda: tracker.receiver().ask(StopReceiver("enough"), Reply))
    tracker.run(Counting())
    stopping.result(timeout=10)
    first, last = tracker.blocks
    assert [records(first), records(last)] == [[1, 2, 3], [4]]
    assert (first.metadata, first.path) == ({"offset": 3}, f"{tmp_path}/check/receivedData/2/input-2-5-0.arrow")
    assert not local.exists()
    assert log.of(RegisterReceiver)[0].disk_bytes > 0
    # When the launch is over, they are there.
    assert sorted(path.name for path in Path(tracker.directory).iterdir()) == ["input-2-5-0.arrow", "input-2-5-1.arrow"]


def test_task_with_logged_blocks_serves_none_and_deletes_on_command(
    tracker: LoggingTracker, tmp_path: Path, background: Background
) -> None:
    def drive() -> None:
        client = tracker.receiver()
        (block,) = tracker.blocks
        reference = BlockReference(block.block_id, "/elsewhere", 3, client.location)
        with pytest.raises(BlockUnreachableError, match="serves no streams"):
            list(fetch_block(reference, reference.source, tracker.token))
        client.ask(CleanUpBlocks([block.block_id]), Reply)
        assert not Path(block.path).exists()
        client.ask(StopReceiver("enough"), Reply)

    driven = background(drive)
    tracker.run(Counting())
    driven.result(timeout=10)


def test_block_refused_by_the_driver_is_deleted(tracker: LoggingTracker, log: EventLog) -> None:
    tracker.accepts_blocks = False
    tracker.run(Counting())
    (ended,) = log.of(DeregisterReceiver)
    assert "StoreError" in ended.error
    assert "not wanted" in ended.error
    assert tracker.blocks
    assert list(Path(tracker.directory).iterdir()) == []


def test_block_of_another_file_system_is_read(log: EventLog, background: Background) -> None:
    tracker = LoggingTracker(log, stream_directory(f"mock:///{uuid.uuid4().hex}", 2))
    stopping = background(lambda: tracker.receiver().ask(StopReceiver("enough"), Reply))
    tracker.run(Counting())
    stopping.result(timeout=10)
    tracker.endpoint.stop()
    assert [records(block) for block in tracker.blocks] == [[1, 2, 3], [4]]
    assert tracker.blocks[0].path.startswith("mock:///")
    # The size of a remote store is unknown.
    assert log.of(RegisterReceiver)[0].disk_bytes == 0


class Observing:
    """A plugin that wraps the store, as they were written before there were checksums."""

    def __init__(self) -> None:
        self.seen: list[int | None] = []

    @hookimpl(wrapper=True)
    def store(self, block: Block, configuration: Mapping[str, str]) -> Any:
        stored: StoredBlock = yield
        self.seen.append(stored.checksum)
        self.configuration = configuration
        return StoredBlock(stored.block_id, stored.stream_id, stored.num_records, stored.num_bytes, stored.path)


class Answering:
    """A plugin that stores blocks in a write-ahead log of its own."""

    def __init__(self, directory: str) -> None:
        self._log = WriteAheadLogBlockHandler(directory)

    @hookimpl
    def store(self, block: Block) -> StoredBlock:
        return evolve(self._log.store(block), metadata={"by": "plugin"})


def with_plugin(monkeypatch: pytest.MonkeyPatch, plugin: object) -> None:
    def make(disable: Any) -> Plugins:
        plugins = Plugins(disable, entry_points=[])
        plugins.manager.register(plugin)
        return plugins

    monkeypatch.setattr(receiver_task, "Plugins", make)


def test_a_plugin_may_wrap_the_store(
    tracker: LoggingTracker, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Observing()
    with_plugin(monkeypatch, plugin)
    stopping = background(lambda: tracker.receiver().ask(StopReceiver("enough"), Reply))
    tracker.run(Counting())
    stopping.result(timeout=10)
    assert all(plugin.seen)
    assert plugin.configuration == LOG
    assert [block.checksum for block in tracker.blocks] == [None, None]
    assert [records(block) for block in tracker.blocks] == [[1, 2, 3], [4]]


def test_a_plugin_may_answer_instead(
    tracker: LoggingTracker, tmp_path: Path, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_plugin(monkeypatch, Answering(str(tmp_path / "own")))
    stopping = background(lambda: tracker.receiver().ask(StopReceiver("enough"), Reply))
    tracker.run(Counting())
    stopping.result(timeout=10)
    assert [(records(block), block.metadata) for block in tracker.blocks] == [
        ([1, 2, 3], {"by": "plugin"}),
        ([4], {"by": "plugin"}),
    ]
    assert not Path(tracker.directory).exists()
