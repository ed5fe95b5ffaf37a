"""The receivers' write-ahead log on the driver: references without a source, deletion, one backlog limit."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Block, Receiver, StoredBlock
from penstock.blocks import arrow_form
from penstock.blocks.received_block_handler import WriteAheadLogBlockHandler, stream_directory
from penstock.errors import BlockDamagedError, ConfigurationError
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.listen.events import ReceiverError
from penstock.receive.messages import AddBlocks, CleanUpBlocks, UpdateRateLimit
from penstock.spark.cluster import TaskLocation
from penstock.storage.directory import Directory
from penstock.track.block_logs import BlockLogs
from penstock.wire.json_codec import Reply

if TYPE_CHECKING:
    from tests.track.conftest import FakeProcess, Tracked

MakeTracker = Callable[..., "Tracked"]
WaitFor = Callable[..., None]
LOG = {"spark.streaming.receiver.writeAheadLog.enable": "true"}


@pytest.fixture(params=["path", "mock"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A checkpoint directory."""
    return str(tmp_path / "check") if request.param == "path" else f"mock:///{uuid.uuid4().hex}"


def add(process: FakeProcess, *numbers: int, records: int = 2) -> list[StoredBlock]:
    """Log blocks, and report them."""
    task = process.task
    log = WriteAheadLogBlockHandler(task.log_directory)
    table = arrow_form.encode(["x" * 100] * records)
    blocks = [
        log.store(Block(f"input-{task.stream_id}-{task.epoch}-{n}", task.stream_id, records, table)) for n in numbers
    ]
    assert process.driver.ask(AddBlocks(task.stream_id, task.epoch, blocks), Reply).accepted
    return blocks


def files(directory: str, stream_id: int = 0) -> list[str]:
    return sorted(Directory.of(stream_directory(directory, stream_id)).names())


def allocated(tracked: Tracked, time_ms: int) -> list[Any]:
    tracked.tracker.blocks.allocate_blocks_to_batch(time_ms)
    return tracked.located(tracked.tracker.blocks.blocks_of_batch(time_ms, 0))


def test_recovered_blocks_count_for_the_backlog_limit(
    make_tracker: MakeTracker, make_log: Callable[..., WriteAheadLog], tmp_path: Path
) -> None:
    first = make_tracker(conf=LOG, checkpoint_directory=str(tmp_path / "check"), write_ahead_log=make_log())
    first.tracker.start()
    stored = add(first.registered(), 0, 1)
    first.tracker.close()
    second = make_tracker(conf=LOG, checkpoint_directory=str(tmp_path / "check"), write_ahead_log=make_log())
    second.tracker.start()
    assert second.tracker.backlog.num_bytes == sum(block.num_bytes for block in stored)
    # They belong to no executor.
    assert second.tracker.backlog.by_executor == {}


def test_claim_is_looked_at_before_a_deletion(tmp_path: Path) -> None:
    class FakeClaim:
        def __init__(self) -> None:
            self.looks: list[bool] = []

        @contextmanager
        def held(self, *, deletes: bool = False) -> Iterator[None]:
            self.looks.append(deletes)
            yield

    claim: Any = FakeClaim()
    logs = BlockLogs(str(tmp_path), [0], claim)
    logs.start()
    logs.delete([StoredBlock("input-0-1-0", 0, 1, 1, "")])
    logs.stop(10)
    assert claim.looks == [True]


# -- where it is --


def test_without_a_checkpoint_directory_there_is_no_start(make_tracker: MakeTracker) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_tracker(conf=LOG)
    for word in ("writeAheadLog.enable=true", "ssc.checkpoint(directory)", "spark.streaming.checkpoint.directory"):
        assert word in str(caught.value)


def test_directory_without_a_file_system_is_refused(make_tracker: MakeTracker) -> None:
    with pytest.raises(ConfigurationError, match="nosuch://host/check"):
        make_tracker(conf=LOG, checkpoint_directory="nosuch://host/check")


def test_without_receivers_or_the_key_there_is_no_log(make_tracker: MakeTracker, tmp_path: Path) -> None:
    make_tracker([], conf=LOG).tracker.start()
    tracked = make_tracker(checkpoint_directory=str(tmp_path))
    tracked.tracker.start()
    assert tracked.launch().task.log_directory == ""


def test_each_stream_has_a_directory_of_its_own(
    make_tracker: MakeTracker, silent: type[Receiver[Any]], tmp_path: Path
) -> None:
    tracked = make_tracker([silent(), silent()], conf=LOG, checkpoint_directory=tmp_path.as_uri())
    tracked.tracker.start()
    directories = {tracked.launch(n).task.stream_id: tracked.launch(n).task.log_directory for n in (1, 2)}
    assert directories == {n: f"{tmp_path}/receivedData/{n}" for n in (0, 1)}


# -- reading --


def test_blocks_are_read_without_their_receiver_and_its_host(make_tracker: MakeTracker, directory: str) -> None:
    tracked = make_tracker(conf=LOG, checkpoint_directory=directory)
    tracked.tracker.start()
    process = tracked.registered()
    (block,) = add(process, 0)
    found = allocated(tracked, 100)
    ((host, num_bytes, reference),) = found
    assert host == ("host-a" if directory.startswith("/") else "")
    assert (num_bytes, reference.path, reference.source) == (block.num_bytes, block.path, "")
    assert reference.checksum == block.checksum
    process.close()
    process.launch.end(RuntimeError("lost"))
    tracked.place = TaskLocation("host-b", "2")
    tracked.relaunch()
    tracked.registered(2)
    ((_host, _size, again),) = tracked.located([block])
    assert again == reference
    assert list(tracked.tracker.reader(0, [(again,)])) == ["x" * 100] * 2


def test_remote_blocks_of_two_hosts_share_a_partition(make_tracker: MakeTracker) -> None:
    tracked = make_tracker(conf=LOG, checkpoint_directory=f"mock:///{uuid.uuid4().hex}")
    tracked.tracker.start()
    first = tracked.registered()
    add(first, 0)
    first.launch.end(RuntimeError("lost"))
    tracked.place = TaskLocation("host-b", "2")
    tracked.relaunch()
    add(tracked.registered(2), 0)
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    (partition,) = tracked.tracker.partitions(100, [0], 1)
    assert ([each.block_id for each in partition.element], partition.hosts) == (["input-0-1-0", "input-0-2-0"], ())


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_corrupt_block_is_reported_as_lost(make_tracker: MakeTracker, tmp_path: Path, policy: str) -> None:
    tracked = make_tracker(
        conf=LOG | {"spark.penstock.blocks.onLost": policy}, checkpoint_directory=str(tmp_path / "check")
    )
    tracked.tracker.start()
    blocks = add(tracked.registered(), 0, 1)
    content = bytearray(Path(blocks[0].path).read_bytes())
    content[len(content) // 2] ^= 1
    Path(blocks[0].path).write_bytes(content)
    partition = tuple(reference for _host, _size, reference in allocated(tracked, 100))
    if policy == "skip":
        assert list(tracked.tracker.reader(0, [partition])) == ["x" * 100] * 2
    else:
        with pytest.raises(BlockDamagedError, match=blocks[0].path):
            list(tracked.tracker.reader(0, [partition]))
    tracked.settle()
    (said,) = [
        entry.receiverInfo.lastErrorMessage for entry in tracked.events.entries if isinstance(entry, ReceiverError)
    ]
    follows = {"fail": "their batch fails", "skip": "they are left out"}[policy]
    assert said.startswith(f"1 blocks (2 records) are lost, {follows}: the block file {blocks[0].path} is damaged")
    assert f"{blocks[0].checksum:08x}" in said
    info = tracked.tracker.receiver_infos()[0]
    assert (info.lost_blocks, info.lost_records) == (1, 2)


# -- deleting --


def test_driver_deletes_cleaned_up_blocks(make_tracker: MakeTracker, directory: str, wait_for: WaitFor) -> None:
    tracked = make_tracker(conf=LOG, checkpoint_directory=directory)
    tracked.tracker.start()
    process = tracked.registered()
    add(process, 0, 1)
    allocated(tracked, 100)
    add(process, 2)
    allocated(tracked, 200)
    tracked.tracker.clean_up(200, delete=True)
    wait_for(lambda: files(directory) == ["input-0-1-2.arrow"], "deleted")
    tracked.settle()
    assert not any(isinstance(message, CleanUpBlocks) for message in process.received.entries)


def test_blocks_are_not_deleted_without_unpersist(make_tracker: MakeTracker, directory: str) -> None:
    tracked = make_tracker(conf=LOG, checkpoint_directory=directory)
    tracked.tracker.start()
    add(tracked.registered(), 0)
    allocated(tracked, 100)
    tracked.tracker.clean_up(200, delete=False)
    tracked.tracker.stop(time.monotonic())
    tracked.tracker.delete_files()
    assert files(directory) == ["input-0-1-0.arrow"]


def test_stop_deletes_only_cleaned_up_blocks_from_the_log(make_tracker: MakeTracker, directory: str) -> None:
    tracked = make_tracker(conf=LOG, checkpoint_directory=directory)
    tracked.tracker.start()
    process = tracked.registered()
    for number in range(3):
        add(process, number)
        allocated(tracked, 100 * (number + 1))
    add(process, 3)
    tracked.tracker.clean_up(200, delete=True)
    tracked.tracker.stop(time.monotonic())
    # As at a graceful stop: the last batches end when the receivers have stopped.
    tracked.tracker.clean_up(300, delete=True)
    tracked.tracker.delete_files()
    tracked.tracker.delete_files()
    assert files(directory) == ["input-0-1-2.arrow", "input-0-1-3.arrow"]


def test_slow_deletion_blocks_nobody(
    make_tracker: MakeTracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_for: WaitFor
) -> None:
    directory = str(tmp_path / "check")
    tracked = make_tracker(conf=LOG, checkpoint_directory=directory)
    tracked.tracker.start()
    process = tracked.registered()
    add(process, 0)
    allocated(tracked, 100)
    go_on, delete = threading.Event(), WriteAheadLogBlockHandler.delete

    def slow(self: WriteAheadLogBlockHandler, block_ids: Any) -> int:
        assert go_on.wait(30)
        return delete(self, block_ids)

    monkeypatch.setattr(WriteAheadLogBlockHandler, "delete", slow)
    tracked.tracker.clean_up(200, delete=True)
    tracked.settle()
    assert process.report("still there").accepted
    assert files(directory) == ["input-0-1-0.arrow"]
    go_on.set()
    wait_for(lambda: files(directory) == [], "deleted")


def test_an_error_while_deleting_is_logged_and_the_next_are_deleted(
    make_tracker: MakeTracker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    wait_for: WaitFor,
) -> None:
    directory = str(tmp_path / "check")
    tracked = make_tracker(conf=LOG, checkpoint_directory=directory)
    tracked.tracker.start()
    process = tracked.registered()
    for number in range(3):
        add(process, number)
        allocated(tracked, 100 * (number + 1))
    # Neither can be deleted as a file is.
    Path(directory, "receivedData", "0", "input-0-1-0.arrow").unlink()
    Path(directory, "receivedData", "0", "input-0-1-0.arrow").mkdir()
    delete, failures = WriteAheadLogBlockHandler.delete, iter([RuntimeError("odd")])

    def fail_first(self: WriteAheadLogBlockHandler, block_ids: Any) -> int:
        for error in failures:
            raise error
        return delete(self, block_ids)

    tracked.tracker.clean_up(200, delete=True)
    wait_for(lambda: "block files left in place" in caplog.text, "the first warning")
    monkeypatch.setattr(WriteAheadLogBlockHandler, "delete", fail_first)
    tracked.tracker.clean_up(300, delete=True)
    wait_for(lambda: "odd" in caplog.text, "the warning about an unexpected error")
    tracked.tracker.clean_up(400, delete=True)
    wait_for(lambda: files(directory) == ["input-0-1-1.arrow"], "the next is deleted")


def test_relaunch_deletes_what_earlier_launches_stored_and_the_driver_did_not_accept(
    make_tracker: MakeTracker, make_log: Callable[[], WriteAheadLog], directory: str, wait_for: WaitFor
) -> None:
    tracked = make_tracker(conf=LOG, checkpoint_directory=directory, write_ahead_log=make_log())
    tracked.tracker.start()
    add(tracked.registered(), 0)
    log = WriteAheadLogBlockHandler(stream_directory(directory, 0))
    table = arrow_form.encode(["a report that failed"])
    adding, *_lost = [log.store(Block(f"input-0-{name}", 0, 1, table)) for name in ("1-1", "1-2", "2-0", "3-0")]
    with tracked.tracker.blocks.adding([adding]):
        tracked.launch(1).end(RuntimeError("died"))
        tracked.relaunch()
        wait_for(lambda: "input-0-1-2.arrow" not in files(directory), "its file is deleted")
        # Accepted; being added; stored by the launch that runs now, or by a later one.
        assert files(directory) == [f"input-0-{name}.arrow" for name in ("1-0", "1-1", "2-0", "3-0")]
        tracked.tracker.blocks.add_blocks([adding])
    tracked.launch(2).end(RuntimeError("died"))
    tracked.relaunch()
    wait_for(lambda: "input-0-2-0.arrow" not in files(directory), "its file is deleted")
    assert files(directory) == [f"input-0-{name}.arrow" for name in ("1-0", "1-1", "3-0")]


# -- backlog --


def test_receivers_that_share_a_log_share_its_backlog_limit(
    make_tracker: MakeTracker, silent: type[Receiver[Any]], tmp_path: Path
) -> None:
    """Two receivers of two hosts fill one log: each pauses when it is full."""
    tracked = make_tracker(
        [silent(), silent()],
        conf=LOG | {"spark.penstock.blocks.maxUnprocessed": "3000"},
        checkpoint_directory=str(tmp_path / "check"),
    )
    tracked.tracker.start()
    first, second = tracked.registered(1), tracked.registered(2)
    add(first, 0, records=15)
    assert tracked.tracker.backlog.num_bytes < 3000
    add(second, 0, records=15)
    assert tracked.tracker.backlog.num_bytes > 3000
    for process in (first, second):
        assert process.received.await_one(UpdateRateLimit).paused
    tracked.settle()
    said = {
        entry.receiverInfo.streamId: entry.receiverInfo.lastErrorMessage
        for entry in tracked.events.entries
        if isinstance(entry, ReceiverError)
    }
    assert sorted(said) == [0, 1]
    assert all(f"bytes on {tmp_path}/check are not processed yet" in message for message in said.values())
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    tracked.tracker.processed(100)
    for process in (first, second):
        assert not process.received.await_one(UpdateRateLimit, 2).paused
