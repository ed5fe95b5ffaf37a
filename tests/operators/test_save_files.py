"""``saveAsTextFiles`` and ``saveAsPickleFiles``: a directory for each batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import DStream
from penstock.errors import BatchFailedError
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


def test_directories_have_the_time_in_their_names(harness: StreamHarness, sc: Any, tmp_path: Path) -> None:
    records: list[list[Any]] = [[1, "ä"], [], [(2, None)]]

    def operation(stream: DStream[Any]) -> DStream[Any]:
        stream.saveAsTextFiles(str(tmp_path / "plain"))
        stream.saveAsTextFiles(str(tmp_path / "text"), "txt")
        stream.saveAsPickleFiles(str(tmp_path / "pickle"), "bin")
        return stream

    harness.run(operation, records)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}-{time}{suffix}"
        for time in (1000, 2000, 3000)
        for name, suffix in (("plain", ""), ("text", ".txt"), ("pickle", ".bin"))
    }
    for time, batch in zip((1000, 2000, 3000), records, strict=True):
        assert sc.textFile(str(tmp_path / f"text-{time}.txt")).collect() == [str(record) for record in batch]
        assert sc.pickleFile(str(tmp_path / f"pickle-{time}.bin")).collect() == batch


def test_what_was_saved_is_left_as_it_is(harness: StreamHarness, sc: Any, tmp_path: Path) -> None:
    sc.parallelize(["before"]).saveAsTextFile(str(tmp_path / "out-1000"))

    def operation(stream: DStream[Any]) -> DStream[Any]:
        stream.saveAsTextFiles(str(tmp_path / "out"))
        return stream

    harness.run(operation, [["now"], ["then"]])
    assert sc.textFile(str(tmp_path / "out-1000")).collect() == ["before"]
    assert sc.textFile(str(tmp_path / "out-2000")).collect() == ["then"]


def test_a_directory_that_cannot_be_made_fails_the_batch(harness: StreamHarness, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    def operation(stream: DStream[Any]) -> DStream[Any]:
        stream.saveAsTextFiles(str(tmp_path / "file" / "out"))
        return stream

    with pytest.raises(BatchFailedError, match="saveAsTextFiles"):
        harness.run(operation, [["now"]])
