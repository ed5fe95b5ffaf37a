"""`penstock checkpoint inspect`: the text, the JSON and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import Result
from tests.checkpoint.samples import FIRST

from penstock.checkpoint.manifest import SavedInput, SavedState
from penstock.checkpoint.store import CheckpointStore
from penstock.storage.directory import Directory

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
    checkpoint = evolve(FIRST, number=7, last_time_ms=3000, pending={2000: 2, 3000: 1}, inputs=inputs, states=[state])
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
        "written 1970-01-01T00:00:00.000Z, format 3, by penstock 1",
        "program not saved: its own code rebuilds it (spark.penstock.checkpoint.rebuild)",
        "batches every 1 s from 1970-01-01T00:00:00.000Z, the last generated is 1970-01-01T00:00:03.000Z",
        "pending 2: 1970-01-01T00:00:02.000Z (begun by 2 runs), 1970-01-01T00:00:03.000Z (begun by 1 run)",
        "input stream 0, lines (receiverStream), 1,500 records/s",
        "input stream 1, files (textFileStream), position {'read': 3}",
        "state counts (updateStateByKey at app.py:9): 1 checkpointed RDD of 1 partition, the newest of batch "
        "1970-01-01T00:00:02.000Z",
        "listeners values saved by rates",
        "recovery a program can recover from here, and nothing is missing",
    ):
        assert expected in lines
    assert "the saved program: it is pickled code" in result.stdout


def test_json_has_the_same_without_values_that_may_be_secret(cli: Cli, directory: Path) -> None:
    found = json.loads(cli("checkpoint", "inspect", str(directory), "--json").stdout)
    assert (found["verdict"], found["damage"]) == ("yes", [])
    assert found["newest"]["format"] == 3
    assert found["newest"]["pending"] == {"2000": 2, "3000": 1}
    assert found["newest"]["listeners"] == ["rates"]
    assert "conf" not in found["newest"]
    assert len(found["not_read"]) == 2


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


@pytest.mark.parametrize(
    ("location", "words"), [("FILE", "cannot be read: "), ("nosuch://host/x", "no file system for 'nosuch://host/x'")]
)
def test_location_that_cannot_be_read_is_an_error(cli: Cli, tmp_path: Path, location: str, words: str) -> None:
    (tmp_path / "FILE").touch()
    result = cli("checkpoint", "inspect", location.replace("FILE", str(tmp_path / "FILE")))
    assert result.exit_code == 1
    assert words in result.stderr
