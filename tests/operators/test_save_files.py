"""``saveAsTextFiles`` and ``saveAsPickleFiles``: a directory for each batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import DStream
from penstock.errors import BatchFailedError

pytestmark = pytest.mark.spark


def text_in(directory: Path) -> list[str]:
    parts = sorted(directory.glob("part-*"))
    return [line for part in parts for line in part.read_text(encoding="utf-8").splitlines()]


def test_directories_have_the_time_in_their_names(run_outputs: Any, sc: Any, tmp_path: Path) -> None:
    records: list[list[Any]] = [[1, "ä", (2, None)], []]

    def program(stream: DStream[Any]) -> None:
        stream.saveAsTextFiles(str(tmp_path / "plain"))
        stream.saveAsTextFiles(str(tmp_path / "text"), "txt")
        stream.saveAsPickleFiles(str(tmp_path / "pickle"), "bin")

    run_outputs(program, records)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}-{time}{suffix}"
        for time in (1000, 2000)
        for name, suffix in (("plain", ""), ("text", ".txt"), ("pickle", ".bin"))
    }
    for time, batch in zip((1000, 2000), records, strict=True):
        for name in (f"plain-{time}", f"text-{time}.txt"):
            assert text_in(tmp_path / name) == [str(record) for record in batch]
        assert sc.pickleFile(str(tmp_path / f"pickle-{time}.bin")).collect() == batch


def test_existing_output_is_not_overwritten(run_outputs: Any, tmp_path: Path) -> None:
    saved = tmp_path / "out-1000"
    saved.mkdir()
    (saved / "part-00000").write_text("before")

    def program(stream: DStream[Any]) -> None:
        stream.saveAsTextFiles(str(tmp_path / "out"))

    run_outputs(program, [["now"], ["then"]])
    assert text_in(saved) == ["before"]
    assert text_in(tmp_path / "out-2000") == ["then"]


def test_a_directory_that_cannot_be_made_fails_the_batch(run_outputs: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    def program(stream: DStream[Any]) -> None:
        stream.saveAsTextFiles(str(tmp_path / "file" / "out"))

    with pytest.raises(BatchFailedError, match="saveAsTextFiles"):
        run_outputs(program, [["now"]])
