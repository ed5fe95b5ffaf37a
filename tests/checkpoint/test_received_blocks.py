"""The driver write-ahead log of a recovered run: no accepted block is lost, and none is in two batches."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve
from tests.checkpoint.recoveries import blocks, directory_of, program_of
from tests.checkpoint.samples import FIRST, FakeProgram
from tests.checkpoint.test_checkpointer import Writing
from tests.schedule.test_recovered_batches import NOTHING_PENDING, Recovering

from penstock import StoredBlock
from penstock.checkpoint.checkpoint_format import Checkpoint, SavedInput
from penstock.checkpoint.restore.recovery import block_log, check_no_blocks_needed, find_newest
from penstock.checkpoint.restore.restore_streams import restore_sequence
from penstock.errors import ConfigurationError, WriteAheadLogError
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.listen.events import BatchCompleted
from penstock.storage.directory import Directory
from penstock.track.received_block_tracker import ReceivedBlockTracker

SKIP = {"spark.penstock.checkpoint.onDamage": "skip"}


def log_of(path: Path, found: Checkpoint | None = None, conf: dict[str, str] | None = None) -> WriteAheadLog:
    """The log of a run that recovers from a checkpoint, or of a first run."""
    program = program_of(FakeProgram(), conf or {})
    return block_log(program, directory_of(program, path), FIRST.run, found)


def checkpoint_of(log: WriteAheadLog) -> Checkpoint:
    """A checkpoint after batch 2."""
    inputs = [SavedInput("a", "a", 0)]
    return evolve(FIRST, last_time_ms=2000, inputs=inputs, logged_events=log.last_number)


@pytest.fixture
def damaged(tmp_path: Path) -> Checkpoint:
    """The checkpoint of a run with two batches of one block and a third block, and a damaged end of its log."""
    log = log_of(tmp_path)
    tracker = ReceivedBlockTracker([0], log)
    tracker.start()
    for number in range(2):
        tracker.add_blocks(blocks(number))
        if number:
            (file,) = (tmp_path / "receivedBlockMetadata").iterdir()
            sound = file.stat().st_size
        tracker.allocate_blocks_to_batch((number + 1) * 1000)
    tracker.add_blocks(blocks(2))
    tracker.close()
    data = bytearray(file.read_bytes())
    data[sound + 20] ^= 1
    # The file ends here, so that nothing after the damage can be read.
    file.write_bytes(data[: sound + 40])
    return checkpoint_of(log)


def test_log_with_fewer_events_than_the_checkpoint_is_refused(tmp_path: Path, damaged: Checkpoint) -> None:
    assert damaged.logged_events == 5
    with pytest.raises(WriteAheadLogError, match=r"event 3.* 5"):
        ReceivedBlockTracker([0], log_of(tmp_path, damaged))


@pytest.mark.parametrize(("pending", "again"), [({}, []), ({2000: 1}, [1])], ids=["complete", "not complete"])
def test_skipped_damage_puts_no_block_of_a_complete_batch_into_another(
    tmp_path: Path, damaged: Checkpoint, pending: dict[int, int], again: list[int]
) -> None:
    tracker = ReceivedBlockTracker([0], log_of(tmp_path, evolve(damaged, pending=pending), SKIP))
    tracker.start()
    assert tracker.recovered.lost == 2
    for time_ms in (*pending, 3000):
        tracker.allocate_blocks_to_batch(time_ms)
    made = [block for time_ms in (*pending, 3000) for block in tracker.blocks_of_batch(time_ms, 0)]
    assert made == blocks(*again)
    # Windows and states are recomputed from it.
    assert tracker.blocks_of_batch(2000, 0) == blocks(1)
    tracker.close()


def test_missing_allocation_of_the_last_batch_is_no_damage(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    tracker = ReceivedBlockTracker([0], log)
    tracker.start()
    tracker.add_blocks(blocks(0))
    tracker.close()
    # The allocation could not be logged, and the checkpoint that mentions the batch was written.
    again = ReceivedBlockTracker([0], log_of(tmp_path, checkpoint_of(log)))
    assert again.recovered.is_whole
    assert again.unallocated_records() == {0: 10}


def check(path: Path, found: Checkpoint, fake: FakeProgram, conf: dict[str, str] | None = None) -> None:
    program = program_of(fake, conf or {})
    points = restore_sequence(found, fake.graph, {})[0]
    check_no_blocks_needed(program, directory_of(program, path), found, points)


def test_switching_the_log_off_is_refused_while_its_blocks_are_needed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = log_of(tmp_path)
    tracker = ReceivedBlockTracker([0], log)
    tracker.start()
    for number in range(2):
        tracker.add_blocks(blocks(number))
        tracker.allocate_blocks_to_batch((number + 1) * 1000)
    found = checkpoint_of(log)
    program, window = FakeProgram(), FakeProgram()
    program.output(program.source)
    window.output(window.source.window(2))
    # Every batch is complete, and nothing needs older ones.
    check(tmp_path, found, program)
    refusal = r"recovery needs 10 records .*Log\.enable is false\. Set it to true, recover .*onDamage=skip"
    with pytest.raises(ConfigurationError, match=refusal):
        check(tmp_path, evolve(found, pending={2000: 1}), program)
    check(tmp_path, evolve(found, pending={2000: 1}), program, SKIP)
    assert "records=10" in caplog.text
    with pytest.raises(ConfigurationError, match=r"needs 20 records .*windows"):
        check(tmp_path, found, window)
    # Unallocated blocks are needed by the next batch.
    tracker.add_blocks(blocks(2))
    tracker.close()
    with pytest.raises(ConfigurationError, match=refusal):
        check(tmp_path, found, program)


def test_first_batch_keeps_its_blocks_if_the_driver_dies_before_its_checkpoint(tmp_path: Path) -> None:
    two = blocks(0, 1)
    before = ReceivedBlockTracker([0], log_of(tmp_path))
    before.start()
    writing = Writing(evolve(FIRST, zero_time_ms=-1, last_time_ms=-1), {}, Directory.of(str(tmp_path)))
    writing.checkpointer.start()
    writing.checkpointer.begin(500)
    before.add_blocks(two)
    before.allocate_blocks_to_batch(600)
    # The driver dies here, before another checkpoint is written.
    before.close()
    writing.checkpointer.stop(10)

    found = find_newest(str(tmp_path))
    assert found is not None
    assert (found.run, found.zero_time_ms, found.last_time_ms) == (FIRST.run, 500, 500)
    tracker = ReceivedBlockTracker([0], log_of(tmp_path))
    tracker.start()
    recovered = evolve(NOTHING_PENDING, zero_time_ms=found.zero_time_ms, last_time_ms=found.last_time_ms)
    with closing(Recovering(recovered, 740, catch_up="all")) as run:
        run.engine.batch_input.allocate_blocks_to_batch = tracker.allocate_blocks_to_batch  # type: ignore[method-assign]
        has: dict[int, list[StoredBlock]] = {}
        run.engine.graph.make = lambda time_ms: [lambda: has.update({time_ms: tracker.blocks_of_batch(time_ms, 0)})]
        run.start()
        run.log.await_count(BatchCompleted, 2)
    assert has == {600: two, 700: []}
    tracker.close()
