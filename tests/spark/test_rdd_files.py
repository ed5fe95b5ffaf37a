"""Checkpoint directories: their full URI, and the empty folders of earlier runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.errors import ConfigurationError
from penstock.spark.rdd_files import RunFolder, delete_empty_folders, qualified
from penstock.storage.uri import location_of_hadoop

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.spark


def test_local_path_is_qualified(sc: SparkContext) -> None:
    for given in ("/some/check point", "file:/some/check point", "file:///some/check point", "/some/check point/"):
        assert location_of_hadoop(qualified(sc, given)) == "/some/check point"
    assert location_of_hadoop(qualified(sc, "/some/a%20b")) == "/some/a%20b"
    assert location_of_hadoop(qualified(sc, "check")) == str(Path("check").absolute())


def test_path_on_another_file_system_is_qualified(sc: SparkContext) -> None:
    hadoop = sc._jsc.hadoopConfiguration()
    before = hadoop.get("fs.defaultFS")
    hadoop.set("fs.defaultFS", "hdfs://127.0.0.1:8020")
    try:
        assert qualified(sc, "/some/check") == "hdfs://127.0.0.1:8020/some/check"
        assert qualified(sc, "file:/some/check") == "file:/some/check"
    finally:
        hadoop.set("fs.defaultFS", before)


def test_path_without_a_file_system_is_refused(sc: SparkContext) -> None:
    with pytest.raises(ConfigurationError, match="nosuch://host/check"):
        qualified(sc, "nosuch://host/check")


def test_only_empty_folders_of_other_runs_are_deleted(sc: SparkContext, tmp_path: Path) -> None:
    mine, empty, full = (f"0000000{number}-0000-4000-8000-000000000000" for number in range(3))
    for name in (mine, empty, f"{full}/rdd-1", "receivedData", "0" * 36):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "checkpoint-0000000001").touch()
    before = {path.name for path in tmp_path.iterdir()}
    delete_empty_folders(sc, RunFolder(mine, f"file:{tmp_path}"))
    assert before - {path.name for path in tmp_path.iterdir()} == {empty}
    delete_empty_folders(sc, RunFolder(mine, f"file:{tmp_path}/no/such"))
