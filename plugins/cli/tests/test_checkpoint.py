"""`penstock checkpoint inspect`: the text, the JSON and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import Result
from tests.checkpoint.samples import FIRST, LateBatches, SavedInput, SavedState
from tests.helpers.odd_names import ODD_NAMES

from penstock.spi import CheckpointStore, Directory, printable
from penstock_cli.inspection import CheckpointFile, Inspection, StreamBlocks
from penstock_cli.saved_logs import SavedLog

Cli = Callable[..., Result]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A checkpoint with a receiver, a file stream and a state."""
    inputs = [
        SavedInput("lines", "receiverStream", 0, rate=1500.0),
        SavedInput("files", "textFileStream", 1, position={"read": 3}),
    ]
    state = SavedState(
        "counts", "updateStateByKey", "updateStateByKey at app.py:9", 1, "portable_hash", {2000: "run/rdd-7"}
    )
    (tmp_path / "run/rdd-7").mkdir(parents=True)
    (tmp_path / "run/rdd-7/part-00000").touch()
    checkpoint = evolve(
        FIRST, number=7, last_time_ms=3000, pending={2000: 2, 3000: 1}, failed=[2000], inputs=inputs, states=[state]
    )
    store = CheckpointStore(Directory.of(str(tmp_path)))
    store.write(evolve(checkpoint, listeners={"rates": {"key": "value"}}, conf={"spark.x": "y"}))
    return tmp_path


def test_directory_is_described(cli: Cli, directory: Path) -> None:
    result = cli("checkpoint", "inspect", str(directory))
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == str(directory)
    for expected in (
        "application 'store', run run",
        "written 1970-01-01T00:00:00.000Z, format 4, by penstock 1",
        "program not saved: its own code rebuilds it (spark.penstock.checkpoint.rebuild)",
        "batches every 1 s from 1970-01-01T00:00:00.000Z, the last generated is 1970-01-01T00:00:03.000Z",
        "pending 2: 1970-01-01T00:00:02.000Z (begun by 2 runs), 1970-01-01T00:00:03.000Z (begun by 1 run)",
        "failed 1 of these, which run again, the oldest 1970-01-01T00:00:02.000Z",
        "input stream 0, lines (receiverStream), 1,500 records/s",
        "input stream 1, files (textFileStream), position {'read': 3}",
        "state counts (updateStateByKey at app.py:9): 1 checkpointed RDD of 1 partition, the newest of batch "
        "1970-01-01T00:00:02.000Z",
        "listeners values saved by rates",
        "recovery a program can recover from here, and nothing is missing",
    ):
        assert expected in lines
    assert "the saved program: it is pickled code" in result.stdout


def test_logs_blocks_and_many_pending_batches_are_described(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    inspection = Inspection(
        "/c",
        [CheckpointFile("checkpoint-0000000001", 200_000, "")],
        evolve(
            FIRST,
            pending={1000 * number: 1 for number in range(5)},
            late=[LateBatches(5000, 86_400_000, 1)],
            program="program-0a-7",
        ),
        [SavedLog("receivedBlockMetadata", (("segment-0000000000", 2_000_000),), 4, lost=1)],
        [StreamBlocks(0, 2, 2_000, 1_500, 10, 1, missing=1)],
    )
    asked: list[object] = []

    def inspect(directory: str, *, verifies_blocks: bool) -> Inspection:
        asked.append((directory, verifies_blocks))
        return inspection

    monkeypatch.setattr("penstock_cli.checkpoint.inspect", inspect)
    lines = [
        " ".join(line.split()) for line in cli("checkpoint", "inspect", "/c", "--verify-blocks").stdout.splitlines()
    ]
    assert asked == [("/c", True)]
    begun = ", ".join(f"1970-01-01T00:00:0{number}.000Z (begun by 1 run)" for number in range(3))
    for expected in (
        "program program-0a-7",
        "checkpoints 1 sound of 1, 0.2 MB, the newest sound one is number 1",
        f"pending 5: {begun}, and 2 more",
        "late 86,396 of a downtime, from 1970-01-01T00:00:05.000Z to 1970-01-02T00:00:00.000Z",
        "log receivedBlockMetadata: 1 segment, 2.0 MB, 4 events, 1 lost",
        "blocks stream 0: 2 blocks, 2,000 records, 1,500 bytes; 10 records in no batch yet; 1 file, 1 missing or "
        "damaged",
    ):
        assert expected in lines


def test_run_without_a_batch_is_described_as_such(cli: Cli, tmp_path: Path) -> None:
    CheckpointStore(Directory.of(str(tmp_path))).write(evolve(FIRST, zero_time_ms=-1, last_time_ms=-1))
    result = cli("checkpoint", "inspect", str(tmp_path))
    assert result.exit_code == 0
    assert "every 1 s; none was generated" in result.stdout
    assert "pending" not in result.stdout


def test_json_has_the_same_without_values_that_may_be_secret(cli: Cli, directory: Path) -> None:
    report = json.loads(cli("checkpoint", "inspect", str(directory), "--json").stdout)
    assert (report["verdict"], report["damage"]) == ("yes", [])
    assert report["newest"]["format"] == 4
    assert report["newest"]["pending"] == {"2000": 2, "3000": 1}
    assert report["newest"]["listeners"] == ["rates"]
    assert "conf" not in report["newest"]
    assert len(report["not_read"]) == 2


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_damage_exits_with_1(cli: Cli, directory: Path, flags: tuple[str, ...]) -> None:
    (directory / "checkpoint-0000000008").write_bytes(b"x")
    result = cli("checkpoint", "inspect", str(directory), *flags)
    assert result.exit_code == 1
    assert "checkpoint-0000000008: it is truncated or damaged" in result.stdout


def test_directory_without_checkpoints_exits_with_1(cli: Cli, tmp_path: Path) -> None:
    result = cli("checkpoint", "inspect", str(tmp_path))
    assert result.exit_code == 1
    assert "no checkpoint is here" in result.stdout


def test_directory_that_is_missing_or_empty_is_named_as_such(cli: Cli, tmp_path: Path) -> None:
    result = cli("checkpoint", "inspect", str(tmp_path / "typo"))
    assert result.exit_code == 1
    assert "the directory has no files or does not exist" in result.stdout
    (tmp_path / "other").touch()
    assert "the directory has no files" not in cli("checkpoint", "inspect", str(tmp_path)).stdout


@pytest.mark.parametrize(
    ("location", "words"), [("FILE", "cannot be read: "), ("nosuch://host/x", "no file system for 'nosuch://host/x'")]
)
def test_location_that_cannot_be_read_is_an_error(cli: Cli, tmp_path: Path, location: str, words: str) -> None:
    (tmp_path / "FILE").touch()
    result = cli("checkpoint", "inspect", location.replace("FILE", str(tmp_path / "FILE")))
    assert result.exit_code == 1
    assert words in result.stderr


@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
def test_names_of_any_form_are_shown_as_text(cli: Cli, tmp_path: Path, name: str) -> None:
    state = SavedState(name, "updateStateByKey", name, 1, "portable_hash", {})
    checkpoint = evolve(FIRST, application=name, inputs=[SavedInput(name, "receiverStream", 0)], states=[state])
    CheckpointStore(Directory.of(str(tmp_path))).write(checkpoint)
    shown = cli("checkpoint", "inspect", str(tmp_path)).stdout
    assert f"stream 0, {printable(name)} (receiverStream)" in shown.replace("\n", " ") or "\n" in name
    assert "\x1b" not in shown
    assert json.loads(cli("checkpoint", "inspect", str(tmp_path), "--json").stdout)["newest"]["inputs"]
