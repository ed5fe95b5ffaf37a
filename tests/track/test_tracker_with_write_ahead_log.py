"""ReceiverTracker with a write-ahead log: accepted blocks are written, launch numbers continue, the log closes last."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers.gate import Gate
from tests.helpers.waiting import wait_for

from penstock import Receiver, StoredBlock
from penstock.errors import ClaimLostError, WireError, WriteAheadLogError
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.receive.messages import StopReceiver
from penstock.storage.claim import Claim, Owner
from penstock.storage.directory import Directory
from penstock.track.received_block_tracker import ReceivedBlockTracker

if TYPE_CHECKING:
    from tests.track.conftest import Tracked

MakeTracker = Callable[..., "Tracked"]
MakeLog = Callable[..., WriteAheadLog]


def ids(tracker: ReceivedBlockTracker, time_ms: int, stream_id: int = 0) -> list[str]:
    return [block.block_id for block in tracker.blocks_of_batch(time_ms, stream_id)]


def test_accepted_blocks_outlive_the_driver(make_tracker: MakeTracker, make_log: MakeLog) -> None:
    first = make_tracker(write_ahead_log=make_log())
    first.tracker.start()
    process = first.registered()
    assert process.add(0, 1).accepted
    first.tracker.blocks.allocate_blocks_to_batch(100)
    assert process.add(2).accepted
    second = make_tracker(write_ahead_log=make_log())
    assert ids(second.tracker.blocks, 100) == ["input-0-1-0", "input-0-1-1"]
    second.tracker.start()
    second.tracker.blocks.allocate_blocks_to_batch(200)
    assert ids(second.tracker.blocks, 200) == ["input-0-1-2"]


def test_position_outlives_the_launch_its_blocks_and_the_driver(make_tracker: MakeTracker, make_log: MakeLog) -> None:
    first = make_tracker(write_ahead_log=make_log())
    first.tracker.start()
    process = first.registered()
    assert process.add(0, metadata={"t-0": 3, "t-1": 8}).accepted
    assert process.add(1, metadata={"t-0": 4}).accepted
    assert process.add(2).accepted
    first.launch().end(RuntimeError("died"))
    first.relaunch()
    assert first.process(2).register().position == {"t-0": 4, "t-1": 8}
    first.tracker.allocate_blocks_to_batch(100)
    first.tracker.clean_up(200, delete=False)
    # Each start of the log replaces the events by the state.
    for _ in range(2):
        recovered = make_tracker(write_ahead_log=make_log())
        recovered.tracker.start()
        assert recovered.tracker.blocks.state.positions == {0: {"t-0": 4, "t-1": 8}}
    recovered.tracker.blocks.forget_streams([0])
    assert recovered.tracker.blocks.state.positions == {}


def test_recovered_run_continues_launch_numbers(
    make_tracker: MakeTracker, make_log: MakeLog, silent: type[Receiver[Any]]
) -> None:
    first = make_tracker([silent(), silent()], write_ahead_log=make_log())
    first.tracker.start()
    # One has stored nothing, and might still do so: its number is not used again either.
    first.launch(2).end(RuntimeError("died"))
    first.relaunch()
    first.launch(3)
    second = make_tracker([silent(), silent(), silent()], write_ahead_log=make_log())
    second.tracker.start()
    second.launch(3)
    assert {launch.task.stream_id: launch.task.epoch for launch in second.launches} == {0: 2, 1: 3, 2: 1}
    process = second.registered()
    assert process.add(7).accepted
    second.tracker.blocks.allocate_blocks_to_batch(100)
    assert ids(second.tracker.blocks, 100) == ["input-0-2-7"]


def test_driver_without_a_claim_refuses_no_block_and_launches_no_receiver(
    make_tracker: MakeTracker, make_log: MakeLog, tmp_path: Path
) -> None:
    claim = Claim.take(Directory.of(str(tmp_path)), Owner("host", 1, "app", "app-1", 0))
    tracked = make_tracker(
        conf={"spark.streaming.receiver.writeAheadLog.enable": "true"},
        checkpoint_directory=str(tmp_path),
        write_ahead_log=make_log(claim=claim),
        claim=claim,
    )
    tracked.tracker.start()
    process = tracked.registered()
    assert process.add(0).accepted
    Claim.take(Directory.of(str(tmp_path)), Owner("host", 2, "app", "app-2", 0))
    # After a refusal the receiver would delete the file of a block that the new owner may know.
    with pytest.raises(WireError, match=r"taken over by another driver: 'app' \(app-2\)"):
        process.add(1)
    tracked.tracker.blocks.seal(1)
    with pytest.raises(WireError, match="taken over by another driver"):
        process.add(1)
    with pytest.raises(ClaimLostError):
        tracked.tracker.blocks.note_launches({0: 2})


def test_block_whose_log_write_fails_may_be_reported_again(
    make_tracker: MakeTracker, make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ahead_log = make_log()
    tracked = make_tracker(write_ahead_log=write_ahead_log)
    tracked.tracker.start()
    process = tracked.registered()

    def fail(_event: object) -> None:
        raise WriteAheadLogError("the write-ahead log cannot be written: the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(write_ahead_log, "append", fail)
        # No refusal: for that the receiver would delete the block.
        with pytest.raises(WireError, match="the disk is full"):
            process.add(0)
    assert not tracked.tracker.blocks.has_unallocated_blocks
    refused = StoredBlock("input-0-1-0", 0, 10, 1000, "/blocks/0-1-0")
    assert [host for host, _size, _reference in tracked.located([refused])] == [""]
    # A relaunched receiver uses other block ids: these blocks must not count for ever.
    assert tracked.tracker.backlog.num_bytes == 0
    assert process.add(0).accepted
    assert tracked.tracker.blocks.has_unallocated_blocks
    assert tracked.tracker.backlog.num_bytes == 1000


class SlowLog:
    """Holds back the writes of a log until the test opens the gate."""

    def __init__(self, log: WriteAheadLog, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = Gate()
        self._append = log.append
        monkeypatch.setattr(log, "append", self._held_back)

    def _held_back(self, event: dict[str, Any]) -> None:
        if event["what"] == "blocks added":
            self.gate()
        self._append(event)


def test_report_repeated_during_its_write_is_answered_like_the_first_although_the_launch_was_replaced(
    make_tracker: MakeTracker, make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    tracked = make_tracker(write_ahead_log=log)
    tracked.tracker.start()
    old = tracked.registered()
    slow = SlowLog(log, monkeypatch)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(old.add, 0)
        assert slow.gate.reached.wait(10)
        old.launch.end(RuntimeError("lost"))
        tracked.relaunch()
        tracked.registered(2)
        repeated = pool.submit(old.add, 0)
        # A block that is not being written is refused meanwhile.
        assert not old.add(1).accepted
        slow.gate.open()
        assert first.result(10).accepted
        # The receiver would have deleted a refused block, and the log has it.
        assert repeated.result(10).accepted
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    assert ids(tracked.tracker.blocks, 100) == ["input-0-1-0"]


def test_stop_waits_for_a_block_that_is_being_written(
    make_tracker: MakeTracker, make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    tracked = make_tracker(write_ahead_log=log)
    tracked.tracker.start()
    process = tracked.registered()
    blocks = tracked.tracker.blocks
    slow = SlowLog(log, monkeypatch)
    queued_after_stop: list[bool] = []
    with ThreadPoolExecutor() as pool:
        added = pool.submit(process.add, 0)
        assert slow.gate.reached.wait(10)
        stopping = pool.submit(tracked.tracker.stop, time.monotonic() + 5)
        stopping.add_done_callback(lambda _stopped: queued_after_stop.append(blocks.has_unallocated_blocks))
        process.received.await_one(StopReceiver)
        process.launch.end()
        wait_for(lambda: blocks.is_sealed, "the seal")
        assert process.add(1).reason == "the application is stopping: no batch would process the blocks"
        slow.gate.open()
        assert added.result(10).accepted
        stopping.result(10)
    assert queued_after_stop == [True]
    blocks.allocate_blocks_to_batch(100)
    assert ids(blocks, 100) == ["input-0-1-0"]


def test_hung_storage_does_not_hang_the_stop(
    make_tracker: MakeTracker, make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, gate = make_log(), Gate(60)
    tracked = make_tracker(write_ahead_log=log)
    tracked.tracker.start()
    process = tracked.registered()
    monkeypatch.setattr(log, "_commit", gate)
    monkeypatch.setattr(WriteAheadLog.close, "__defaults__", (0.5,))
    with ThreadPoolExecutor() as pool:
        added = pool.submit(process.add, 0)
        assert gate.reached.wait(10)
        began = time.monotonic()
        tracked.tracker.stop(began)
        # In the order of the engine.
        tracked.tracker.close()
        tracked.tracker.release()
        assert time.monotonic() - began < 8
        with pytest.raises(WireError, match="whether it has this event is unknown"):
            added.result(10)
        gate.open()


def test_log_stays_open_until_the_last_batch_is_allocated(make_tracker: MakeTracker, make_log: MakeLog) -> None:
    tracked = make_tracker(write_ahead_log=make_log())
    tracked.tracker.start()
    process = tracked.registered()
    assert process.add(0).accepted
    tracked.launch().end()
    tracked.tracker.stop(time.monotonic() + 1)
    tracked.tracker.blocks.allocate_blocks_to_batch(100)
    assert ids(tracked.tracker.blocks, 100) == ["input-0-1-0"]
    tracked.tracker.clean_up(101, delete=False)
    tracked.tracker.close()
    tracked.tracker.close()
    with pytest.raises(WriteAheadLogError, match="closed"):
        tracked.tracker.blocks.allocate_blocks_to_batch(200)


def test_write_ahead_log_that_cannot_be_written_fails_the_start(
    make_tracker: MakeTracker, make_log: MakeLog, tmp_path_factory: pytest.TempPathFactory, tmp_path: Any
) -> None:
    tracked = make_tracker(write_ahead_log=make_log())
    (tmp_path / "log").write_text("in the way")
    with pytest.raises(WriteAheadLogError, match="log could not be written"):
        tracked.tracker.start()
    assert tracked.launches == []


def test_prepared_tracker_stops_at_once_without_a_start(make_tracker: MakeTracker, silent: type[Receiver[Any]]) -> None:
    tracked = make_tracker([silent()])
    tracked.tracker.prepare()
    before = time.monotonic()
    tracked.tracker.stop(time.monotonic() + 60)
    tracked.tracker.release()
    assert time.monotonic() - before < 30
    assert tracked.launches == []


@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
def test_unknown_files_are_deleted_only_if_the_log_is_complete(
    make_tracker: MakeTracker, make_log: MakeLog, tmp_path: Path, torn: bool
) -> None:
    conf = {"spark.streaming.receiver.writeAheadLog.enable": "true"}
    first = make_tracker(write_ahead_log=make_log(), conf=conf, checkpoint_directory=str(tmp_path))
    first.tracker.start()
    assert first.registered().add(0, 1).accepted
    first.tracker.close()
    files = tmp_path / "receivedData" / "0"
    files.mkdir(parents=True)
    for number in range(3):
        (files / f"input-0-1-{number}.arrow").touch()
    if torn:
        (segment,) = (tmp_path / "log").iterdir()
        segment.write_bytes(segment.read_bytes()[:-1])
    second = make_tracker(write_ahead_log=make_log(), conf=conf, checkpoint_directory=str(tmp_path))
    second.tracker.start()
    left = sorted(str(path.relative_to(files)) for path in files.rglob("*.arrow"))
    aside = f"aside-{second.clock.now_ms()}"
    assert left == (
        [f"{aside}/input-0-1-{number}.arrow" for number in range(3)]
        if torn
        else [f"input-0-1-{number}.arrow" for number in range(2)]
    )
