"""``CheckpointDirectory``: who creates it, where the parts of a run are in it, and what is deleted."""

from __future__ import annotations

import fcntl
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.checkpoint.recoveries import directory_of, program_of
from tests.checkpoint.samples import FakeProgram
from tests.helpers import raiser

from penstock.checkpoint import checkpoint_directory as directory_module
from penstock.checkpoint.checkpoint_directory import CheckpointDirectory, use_directory_of_spark
from penstock.conf import Settings
from penstock.errors import ClaimLostError, ConfigurationError
from penstock.spark.rdd_files import RunFolder
from penstock.storage.claim import CLAIMS, Claim, Owner
from penstock.storage.directory import Directory

KEY = "spark.streaming.checkpoint.directory"


class Spark:
    """A SparkContext with a directory for RDD checkpoints."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, scheme: str = "file:") -> None:
        self.folder: RunFolder | None = None
        self.conf: dict[str, str] = {}
        self._scheme = scheme
        monkeypatch.setattr(directory_module, "qualified", lambda _sc, name, _setting: f"{scheme}{name}")
        monkeypatch.setattr(directory_module, "checkpoint_folder", lambda _sc: self.folder)

    def getConf(self) -> dict[str, str]:
        return self.conf

    def setCheckpointDir(self, name: str) -> None:
        self.folder = RunFolder("now", f"{self._scheme}{name}")


def create(spark: Spark, name: object) -> CheckpointDirectory:
    return CheckpointDirectory.create(cast(Any, spark), Settings.parse({}), cast(str, name), KEY)


def test_local_directory_is_created_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "checkpoint"
    directory = create(Spark(monkeypatch), str(path))
    assert (directory.name, directory.folder) == (str(path), RunFolder("now", f"file:{path}"))
    assert path.stat().st_mode & 0o777 == 0o700
    assert directory.state_home == f"{path}/now-state"


@pytest.mark.parametrize("name", ["", " ", None])
def test_directory_without_a_name_is_refused(name: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=f"^{KEY} must be the path or URI of a checkpoint directory"):
        create(Spark(monkeypatch), name)


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_cleaner_that_deletes_checkpointed_state_is_refused(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = Spark(monkeypatch)
    spark.conf["spark.cleaner.referenceTracking.cleanCheckpoints"] = value
    with pytest.raises(ConfigurationError, match=r"^with spark\.cleaner.*=true Spark deletes .* unset the key$"):
        create(spark, str(tmp_path / "new"))
    assert spark.folder is None
    assert not (tmp_path / "new").exists()
    spark.conf["spark.cleaner.referenceTracking.cleanCheckpoints"] = "false"
    create(spark, str(tmp_path / "new"))


def test_file_is_refused_before_spark_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    spark = Spark(monkeypatch)
    with pytest.raises(ConfigurationError, match=f"cannot be used: {tmp_path}/file is a file"):
        create(spark, str(tmp_path / "file" / "below"))
    assert spark.folder is None


def test_remote_directory_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = Directory.of(str(tmp_path))
    located: list[str] = []

    def of(location: str) -> Directory:
        located.append(location)
        return local

    monkeypatch.setattr(Directory, "of", of)
    create(Spark(monkeypatch, scheme="hdfs://host"), str(tmp_path / "remote"))
    assert located == [f"hdfs://host{tmp_path}/remote"]
    assert not (tmp_path / "remote").exists()


def test_claim_names_the_driver_and_the_time(tmp_path: Path) -> None:
    program = program_of(FakeProgram(), {})
    before_ms = time.time() * 1000 - 1
    directory_of(program, tmp_path).take_claim()
    (claim,) = (tmp_path / CLAIMS).glob("claim-*")
    owner = Owner(**json.loads(claim.read_bytes()))
    assert (owner.application, owner.application_id) == ("store", "local-1")
    assert before_ms <= owner.started_ms <= time.time() * 1000 + 1


@pytest.mark.parametrize("has_locks", [True, False])
def test_nothing_is_deleted_once_the_claim_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_locks: bool
) -> None:
    if not has_locks:
        monkeypatch.setattr(fcntl, "flock", raiser(OSError("no locks available")))
    deleted: list[object] = []
    monkeypatch.setattr(directory_module, "delete_empty_folders", lambda _sc, folder: deleted.append(folder))
    monkeypatch.setattr(directory_module, "delete_file", lambda _sc, uri: deleted.append(uri))
    directory = directory_of(program_of(FakeProgram(), {}), tmp_path)
    changes = (
        directory.delete_empty_folders,
        lambda: directory.delete_rdd("file:/rdd"),
        lambda: directory.delete_folder("receivedData"),
    )
    everything = [directory.folder, "file:/rdd", f"file:{tmp_path}/receivedData"]
    for _ in range(2):
        deleted.clear()
        for change in changes:
            change()
        assert deleted == everything
        if directory.claim is None:
            directory.take_claim()
    Claim.take(Directory.of(str(tmp_path)), Owner("host", 1, "store", "other", 0))
    for change in changes:
        with pytest.raises(ClaimLostError):
            change()
    assert deleted == everything


@pytest.mark.parametrize(
    ("own", "of_spark", "used"),
    [
        (None, RunFolder("now", "file:/rdds"), "file:/rdds"),
        ("file:/own", RunFolder("now", "file:/rdds"), "file:/own"),
        (None, None, None),
    ],
)
def test_rdds_are_checkpointed_to_the_directory_of_spark_unless_the_program_has_its_own(
    own: str | None, of_spark: RunFolder | None, used: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_module, "checkpoint_folder", lambda _sc: of_spark)
    graph = SimpleNamespace(checkpoint_directory=own, state_home="")
    use_directory_of_spark(cast(Any, SimpleNamespace(graph=graph, sc=None)))
    assert graph.checkpoint_directory == used
    assert bool(graph.state_home) == (used == "file:/rdds")
    # Another context of the same application has another one.
    assert graph.state_home == "" or graph.state_home.startswith("/rdds/now/state-")
