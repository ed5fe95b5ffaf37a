"""Inspecting a checkpoint directory: what is there, what is damaged, and what a program would do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve
from tests.checkpoint.samples import FIRST, SavedInput, SavedState
from tests.checkpoint.saved_runs import OfTheFuture, log_blocks, log_completed_output, stored, write_framed

from penstock.spi import Checkpoint, CheckpointStore, Directory
from penstock_cli.inspection import inspect


@pytest.fixture
def run(tmp_path: Path) -> Checkpoint:
    """A run with the write-ahead log on: two checkpoints, a batch with one block, and a block in no batch yet."""
    directory = Directory.of(str(tmp_path))
    logged_events = log_blocks(tmp_path, stored(tmp_path, 0), stored(tmp_path, 1), allocated=1)
    store = CheckpointStore(directory)
    # Not a pickle: nothing may open it.
    program = store.write_program(b"cos\nsystem\n")
    first = evolve(FIRST, program=program, inputs=[SavedInput("lines", "receiverStream", 0, 500.0)])
    store.write(first)
    newest = evolve(first, number=2, last_time_ms=1000, pending={1000: 1}, logged_events=logged_events)
    store.write(newest)
    return newest


def damage_one(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_sound_directory_is_described_in_full(tmp_path: Path, run: Checkpoint) -> None:
    inspection = inspect(str(tmp_path), verifies_blocks=True)
    assert inspection.newest == run
    assert [(checkpoint.name, checkpoint.damage) for checkpoint in inspection.checkpoints] == [
        ("checkpoint-0000000001", ""),
        ("checkpoint-0000000002", ""),
    ]
    (log,) = inspection.logs
    # The summary with which the log begins is an event, too.
    assert (log.name, log.events, log.lost) == ("receivedBlockMetadata", 4, 0)
    assert [name for name, _ in log.segments] == ["segment-0000000000"]
    (blocks,) = inspection.blocks
    assert (blocks.stream_id, blocks.blocks, blocks.records, blocks.unallocated) == (0, 2, 20, 10)
    assert (blocks.files, blocks.missing) == (2, 0)
    assert (inspection.damage, inspection.verdict) == ([], "yes")


def test_inspection_changes_nothing(tmp_path: Path, run: Checkpoint) -> None:
    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    before = content()
    inspect(str(tmp_path), verifies_blocks=True)
    assert content() == before


def test_empty_directory_has_nothing_to_recover_from(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        inspection = inspect(str(path))
        assert (inspection.verdict, inspection.newest, inspection.checkpoints) == ("nothing", None, [])


def test_older_checkpoint_is_used_when_the_newest_is_damaged(tmp_path: Path, run: Checkpoint) -> None:
    damage_one(tmp_path / "checkpoint-0000000002")
    inspection = inspect(str(tmp_path))
    assert inspection.newest is not None
    assert inspection.newest.number == 1
    assert inspection.damage == ["checkpoint-0000000002: it is truncated or damaged: its checksum does not match"]
    assert (inspection.verdict, inspection.reason) == (
        "yes",
        "a program recovers from checkpoint 1; later batches run again",
    )


def test_checkpoints_of_another_format_are_refused(tmp_path: Path) -> None:
    write_framed(tmp_path / "checkpoint-0000000001", b'{"format":0}')
    inspection = inspect(str(tmp_path))
    assert inspection.verdict == "refused"
    assert "format version 0" in inspection.damage[0]


@pytest.mark.parametrize(
    ("damages", "verdict", "words"),
    [
        (lambda home: damage_one(next(home.glob("program-*"))), "yes", "its checksum does not match"),
        (lambda home: next(home.glob("program-*")).unlink(), "yes", "cannot be read"),
        (lambda home: (home / "receivedData/0/input-0-1-1.arrow").unlink(), "skip", "is missing: 10 records"),
        (lambda home: damage_one(home / "receivedData/0/input-0-1-1.arrow"), "skip", "is damaged: its checksum"),
        (lambda home: damage_one(home / "receivedBlockMetadata/segment-0000000000"), "skip", "damaged at byte"),
        (
            lambda home: (home / "receivedBlockMetadata/segment-0000000000").unlink(),
            "skip",
            "ends with event 0, and a checkpoint knows of 3",
        ),
    ],
    ids=["program damaged", "program missing", "block missing", "block damaged", "log damaged", "log missing"],
)
def test_damage_is_named_with_what_a_program_would_do(
    tmp_path: Path, run: Checkpoint, damages: Callable[[Path], None], verdict: str, words: str
) -> None:
    damages(tmp_path)
    inspection = inspect(str(tmp_path), verifies_blocks=True)
    assert any(words in text for text in inspection.damage), inspection.damage
    assert inspection.verdict == verdict
    assert inspection.reason != "a program can recover from here, and nothing is missing"


def test_damage_of_log_and_blocks_is_answered_in_the_order_of_a_recovery(tmp_path: Path, run: Checkpoint) -> None:
    damage_one(tmp_path / "receivedBlockMetadata/segment-0000000000")
    for block in (tmp_path / "receivedData/0").iterdir():
        block.unlink()
    inspection = inspect(str(tmp_path))
    assert inspection.verdict == "skip"
    assert inspection.reason.index("spark.penstock.checkpoint.onDamage=skip") < inspection.reason.index(
        "Then batches that need the lost blocks fail; with spark.penstock.blocks.onLost=skip"
    )


def test_log_of_completed_outputs_is_described(tmp_path: Path) -> None:
    log_completed_output(tmp_path)
    CheckpointStore(Directory.of(str(tmp_path))).write(FIRST)
    inspection = inspect(str(tmp_path))
    assert [(log.name, log.events, log.lost) for log in inspection.logs] == [("completedOutputs", 1, 0)]
    assert (inspection.blocks, inspection.damage, inspection.verdict) == ([], [], "yes")


def test_block_that_a_plugin_has_stored_elsewhere_is_not_missed(tmp_path: Path) -> None:
    logged_events = log_blocks(tmp_path, evolve(stored(tmp_path, 0), path="/mirror/0"))
    (tmp_path / "receivedData/0/input-0-1-0.arrow").unlink()
    CheckpointStore(Directory.of(str(tmp_path))).write(evolve(FIRST, logged_events=logged_events))
    inspection = inspect(str(tmp_path), verifies_blocks=True)
    assert [(stream.blocks, stream.missing) for stream in inspection.blocks] == [(1, 0)]
    assert (inspection.damage, inspection.verdict) == ([], "yes")


def test_log_of_another_version_is_refused(tmp_path: Path, run: Checkpoint) -> None:
    write_framed(tmp_path / "receivedBlockMetadata/segment-0000000001", b'{"version":99}')
    inspection = inspect(str(tmp_path))
    assert inspection.verdict == "refused"
    assert "was written by another version of Penstock" in inspection.damage[0]


def test_event_of_another_version_is_refused(tmp_path: Path, run: Checkpoint) -> None:
    log_blocks(tmp_path, state=OfTheFuture())
    inspection = inspect(str(tmp_path))
    assert inspection.verdict == "refused"
    assert "unknown event of blocks: 'of the future'" in inspection.damage[0]


def test_checkpointed_rdd_without_all_partitions_is_named(tmp_path: Path) -> None:
    state = SavedState("counts", "updateStateByKey", "app.py:9", 2, "portable_hash", {1000: "run/rdd-7"})
    CheckpointStore(Directory.of(str(tmp_path))).write(evolve(FIRST, last_time_ms=1000, states=[state]))
    (tmp_path / "run/rdd-7").mkdir(parents=True)
    (tmp_path / "run/rdd-7/part-00000").touch()
    (damage,) = inspect(str(tmp_path)).damage
    assert "1 of 2 partitions of the state of counts at batch 1000 ms are here" in damage
    (tmp_path / "run/rdd-7/part-00001").touch()
    assert inspect(str(tmp_path)).damage == []
