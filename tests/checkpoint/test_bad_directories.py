"""Checkpoint directories that cannot be used, and the errors that say so."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock import StreamingContext
from penstock.checkpoint import checkpoint_directory as directory_module
from penstock.checkpoint.checkpoint_directory import CheckpointDirectory
from penstock.checkpoint.restore.recovery import find_newest
from penstock.conf import Settings
from penstock.errors import ConfigurationError
from penstock.spark.rdd_files import RunFolder

if TYPE_CHECKING:
    from pyspark import SparkContext

KEY = "spark.streaming.checkpoint.directory"


@pytest.mark.parametrize("directory", ["", "  ", 5, None], ids=repr)
def test_getOrCreate_requires_a_path(directory: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^checkpointPath must be the path or URI .*, not {directory!r}$"):
        StreamingContext.getOrCreate(directory, lambda: pytest.fail("called"))
    if directory is not None:
        with pytest.raises(ConfigurationError, match=r"^checkpointPath must be the path or URI "):
            StreamingContext.getActiveOrCreate(directory, lambda: pytest.fail("called"))


def test_getOrCreate_refuses_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigurationError, match=rf"'{file}' \(checkpointPath\) cannot be used: .*[Nn]ot a directory"):
        find_newest(str(file))


def check(sc: SparkContext, directory: object, why: str) -> None:
    """Check what is said of a directory that cannot be used."""
    with pytest.raises(ConfigurationError) as found:
        CheckpointDirectory.create(sc, Settings.parse({}), directory, KEY)  # type: ignore[arg-type]
    assert re.fullmatch(
        rf"the checkpoint directory '{directory}' \({KEY}\) cannot be used: {why}; "
        "name a directory that this program may read and write",
        str(found.value),
    )


@pytest.mark.spark
@pytest.mark.parametrize("below", ["", "/some/folder"])
def test_file_is_no_checkpoint_directory(sc: SparkContext, tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.touch()
    check(sc, f"{file}{below}", f"{file} is a file")


@pytest.mark.spark
def test_directory_that_cannot_be_created_is_refused_with_the_reason_of_the_system(sc: SparkContext) -> None:
    check(sc, "/proc/no/such", r"\[Errno \d+\] .*'/proc/no.*'")


@pytest.mark.spark
def test_directory_that_cannot_be_written_is_refused_with_the_reason_of_the_system(sc: SparkContext) -> None:
    # A pseudo file system creates no files, whoever asks.
    check(sc, "/proc/self/task", r"\[Errno \d+\] .*'/proc/self/task/.*'")


@pytest.mark.spark
def test_directory_on_an_unknown_file_system_is_refused(sc: SparkContext) -> None:
    check(sc, "nosuch://host/check", r".*UnsupportedFileSystemException: No FileSystem for scheme \"nosuch\"")


@pytest.mark.spark
@pytest.mark.parametrize("directory", ["", "  "], ids=repr)
def test_checkpoint_requires_a_path(ssc: StreamingContext, directory: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^directory of ssc.checkpoint must be the path or URI"):
        ssc.checkpoint(directory)


@pytest.mark.spark
def test_error_names_the_argument_of_checkpoint(ssc: StreamingContext, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigurationError, match=rf"'{file}' \(directory of ssc.checkpoint\) .* {file} is a file"):
        ssc.checkpoint(str(file))


def test_sound_directory_that_spark_refuses_is_refused_with_sparks_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_name: str) -> None:
        raise RuntimeError(
            "An error occurred while calling o5.x.\n: java.io.IOException: quota exceeded\n\tat java.base"
        )

    monkeypatch.setattr(directory_module, "qualified", lambda _sc, name, _given_by: name)
    check(
        cast(Any, SimpleNamespace(setCheckpointDir=refuse, getConf=dict)),
        str(tmp_path),
        "java.io.IOException: quota exceeded",
    )


def test_rdd_checkpoint_that_cannot_be_deleted_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Without a JVM.
    directory = CheckpointDirectory(
        cast(Any, SimpleNamespace(_jvm=None)), Settings.parse({}), "c", RunFolder("now", f"file:{tmp_path}")
    )
    directory.delete_rdd("file:/c/rdd-7")
    assert "RDD checkpoint not deleted" in caplog.text
    assert "file:/c/rdd-7" in caplog.text
