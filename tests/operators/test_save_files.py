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


def files(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("before\n")


def save(stream: DStream[Any], prefix: Path) -> None:
    stream.saveAsTextFiles(str(prefix))


def test_a_saved_batch_is_not_overwritten(run_outputs: Any, tmp_path: Path) -> None:
    files(tmp_path / "out-1000", "part-00000", "_SUCCESS")
    run_outputs(lambda stream: save(stream, tmp_path / "out"), [["now"], ["then"]])
    assert text_in(tmp_path / "out-1000") == ["before"]
    assert text_in(tmp_path / "out-2000") == ["then"]


def test_an_interrupted_save_is_repeated(run_outputs: Any, tmp_path: Path) -> None:
    written = "_temporary/0/_temporary/attempt_1_0000_m_000000_0/part-00000"
    left: dict[str, tuple[str, ...]] = {
        "before the first file": (),
        "while files were written": (written,),
        "while files were moved": ("part-00000", ".part-00000.crc", "_temporary/0/task_1_0000_m_000001/part-00001"),
        "before the mark of success": ("part-00000", "part-00007"),
    }

    def program(stream: DStream[Any]) -> None:
        for number, names in enumerate(left.values()):
            (tmp_path / f"{number}-1000").mkdir()
            files(tmp_path / f"{number}-1000", *names)
            save(stream, tmp_path / str(number))

    run_outputs(program, [["now"]])
    for number, name in enumerate(left):
        directory = tmp_path / f"{number}-1000"
        assert text_in(directory) == ["now"], name
        assert (directory / "_SUCCESS").exists()
        assert not (directory / "_temporary").exists()


def test_a_directory_with_other_files_is_left_alone_and_fails_the_batch(run_outputs: Any, tmp_path: Path) -> None:
    files(tmp_path / "out-1000", "part-00000", "notes.txt")
    with pytest.raises(BatchFailedError, match="saveAsTextFiles"):
        run_outputs(lambda stream: save(stream, tmp_path / "out"), [["now"]])
    assert sorted(path.name for path in (tmp_path / "out-1000").iterdir()) == ["notes.txt", "part-00000"]


def test_a_directory_that_cannot_be_made_fails_the_batch(run_outputs: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    def program(stream: DStream[Any]) -> None:
        stream.saveAsTextFiles(str(tmp_path / "file" / "out"))

    with pytest.raises(BatchFailedError, match="saveAsTextFiles"):
        run_outputs(program, [["now"]])
