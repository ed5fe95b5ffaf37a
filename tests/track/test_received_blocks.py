"""``ReceivedBlockTracker``: repeated reports, the seal, and the batches that get recovered blocks."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from tests.helpers import await_blocked, run_in_background

from penstock import StoredBlock
from penstock.conf import Settings
from penstock.errors import ClaimLostError, WriteAheadLogError
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.storage.directory import Directory
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock_testing import ManualClock


def block(number: int) -> StoredBlock:
    return StoredBlock(f"input-0-1-{number}", 0, 10, 100, f"/{number}")


def logged(path: Path) -> tuple[ReceivedBlockTracker, WriteAheadLog]:
    """A tracker of stream 0 with a write-ahead log that is not started."""
    log = WriteAheadLog(Directory.of(str(path)), "run", Settings.parse({}), ManualClock())
    return ReceivedBlockTracker([0], log), log


def test_repeated_report_waits_for_the_first_and_adds_nothing() -> None:
    tracker = ReceivedBlockTracker([0])

    def repeat() -> list[StoredBlock]:
        with tracker.adding([block(1), block(0)]) as new:
            return list(new)

    with tracker.adding([block(0)]) as new:
        assert new == [block(0)]
        repeated = run_in_background(repeat)
        await_blocked(inspect.unwrap(ReceivedBlockTracker.adding))
        assert tracker.retained_ids() == {block(0).block_id}
        tracker.add_blocks(new)
    assert repeated.result(timeout=10) == [block(1)]
    # Nobody adds the other one any more.
    assert tracker.retained_ids() == {block(0).block_id}


def test_seal_waits_for_the_blocks_that_are_being_added(caplog: pytest.LogCaptureFixture) -> None:
    tracker = ReceivedBlockTracker([0])
    with tracker.adding([block(0)]):
        sealing = run_in_background(lambda: tracker.seal(30))
        await_blocked(ReceivedBlockTracker.seal)
        assert tracker.is_sealed
    sealing.result(timeout=10)
    assert "last blocks not added in time" not in caplog.text
    with tracker.adding([block(0), block(1)]):
        tracker.seal(0.01)
    assert "last blocks not added in time" in caplog.text
    assert "blocks=2" in caplog.text


@pytest.mark.parametrize(
    ("limit", "batches"),
    [
        # Ten records per block.
        (20.0, [2, 2, 1]),
        (29.0, [2, 2, 1]),
        (1.0, [1, 1, 1, 1, 1]),
        (50.0, [5]),
        (None, [5]),
    ],
)
def test_recovered_blocks_are_spread_over_batches(tmp_path: Path, limit: float | None, batches: list[int]) -> None:
    earlier, _log = logged(tmp_path)
    earlier.start()
    earlier.add_blocks([block(number) for number in range(5)])
    earlier.close()
    tracker, log = logged(tmp_path)
    tracker.start()
    if limit is not None:
        tracker.spread_recovered_blocks({0: limit})
    assert tracker.log_bytes == log.num_bytes > 0
    sizes = list[int]()
    while tracker.has_unallocated_blocks:
        time_ms = 1000 * (len(sizes) + 1)
        tracker.allocate_blocks_to_batch(time_ms)
        sizes.append(len(tracker.blocks_of_batch(time_ms, 0)))
    assert sizes == batches
    # New blocks are not limited.
    tracker.add_blocks([block(number) for number in range(5, 15)])
    tracker.allocate_blocks_to_batch(100_000)
    assert len(tracker.blocks_of_batch(100_000, 0)) == 10
    tracker.close()


def test_launches_are_saved_if_there_is_a_log_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ReceivedBlockTracker([0]).note_launches({0: 1}) is False
    tracker, log = logged(tmp_path)
    tracker.start()
    assert tracker.note_launches({}) is False
    assert tracker.note_launches({0: 1}) is True
    assert tracker.state.epochs == {0: 1}

    def fail(error: Exception) -> None:
        def append(_event: object) -> None:
            raise error

        monkeypatch.setattr(log, "append", append)

    fail(WriteAheadLogError("the disk is full"))
    assert tracker.note_launches({0: 2}) is False
    fail(ClaimLostError("taken over"))
    with pytest.raises(ClaimLostError):
        tracker.note_launches({0: 2})
    monkeypatch.undo()
    tracker.close()


def test_retained_blocks_are_those_of_older_batches_that_were_not_cleaned_up() -> None:
    tracker = ReceivedBlockTracker([0])
    for number in range(3):
        tracker.add_blocks([block(number)])
        tracker.allocate_blocks_to_batch(1000 * (number + 1))
    assert tracker.clean_up_batches(3000, [range(2000, 2001)]) == [block(0)]
    assert tracker.retained(3000) == [block(1)]
    assert tracker.retained(3000) == []


def test_blocks_of_a_failed_batch_are_processed_when_it_has_succeeded() -> None:
    tracker = ReceivedBlockTracker([0])
    for number in range(3):
        tracker.add_blocks([block(number)])
        tracker.allocate_blocks_to_batch(1000 * (number + 1))
    assert tracker.processed(2000, [2000, 3000]) == [block(0)]
    assert tracker.processed(2000, [2000]) == []
    assert tracker.processed(3000, [2000]) == [block(2)]
    assert tracker.processed(3000) == [block(1)]
    assert tracker.processed(3000) == []
