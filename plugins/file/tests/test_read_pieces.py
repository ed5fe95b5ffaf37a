"""``ReadPieces`` reads the pieces of a partition in order, counts records and explains errors."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, cast

import pytest
from pyarrow import fs

from penstock_file.errors import FileReadError
from penstock_file.pieces import FilePiece
from penstock_file.read_pieces import ReadPieces
from penstock_file.readers import LineReader, ProgramReader, Reader
from penstock_file.record_counts import Counts, _MergeCounts


class Counter:
    """An accumulator, as it is in a task."""

    def __init__(self) -> None:
        self.value: Counts = {}

    def add(self, term: Counts) -> None:
        _MergeCounts().addInPlace(self.value, term)


class Refusing:
    """A file system that lets nobody read."""

    def open_input_file(self, path: str) -> Any:
        raise PermissionError(13, f"Failed to open local file '{path}'.\nPermission denied")


def read_with(counter: Counter, filesystem: Any = None, reader: Reader | None = None) -> ReadPieces:
    return ReadPieces(filesystem or fs.LocalFileSystem(), reader or LineReader(10), cast(Any, counter), 7000)


def pieces(path: Path, *edges: int) -> tuple[FilePiece, ...]:
    size = path.stat().st_size
    return tuple(
        FilePiece(number, str(path), start, stop, size)
        for number, (start, stop) in enumerate(zip((0, *edges), (*edges, size), strict=True))
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a"
    path.write_text("".join(f"line {number}\n" for number in range(100)))
    return path


def test_pieces_are_read_in_order_and_counted(path: Path) -> None:
    counter = Counter()
    assert list(read_with(counter)(0, [pieces(path, 100, 333)])) == [f"line {number}" for number in range(100)]
    counts = counter.value[7000]
    assert set(counts) == {0, 1, 2}
    assert sum(counts.values()) == 100


def test_what_was_read_of_a_piece_is_counted(path: Path) -> None:
    counter = Counter()
    records = read_with(counter)(0, [pieces(path)])
    next(records)
    assert 1 <= counter.value[7000][0] < 5
    list(records)
    assert counter.value == {7000: {0: 100}}


def test_file_without_permission_is_named_with_the_reason(path: Path) -> None:
    with pytest.raises(FileReadError) as caught:
        list(read_with(Counter(), Refusing())(0, [pieces(path)]))
    assert f"{path} cannot be read: " in str(caught.value)
    assert "Permission denied" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_file_that_is_gone_is_named(path: Path) -> None:
    references = pieces(path)
    path.unlink()
    with pytest.raises(FileReadError, match=rf"{path} cannot be read: .*No such file"):
        list(read_with(Counter())(0, [references]))


def test_no_file_stays_open(path: Path) -> None:
    def opened() -> int:
        return len(
            [
                descriptor
                for descriptor in Path("/proc/self/fd").iterdir()
                if descriptor.exists() and descriptor.samefile(path)
            ]
        )

    records = read_with(Counter())(0, [pieces(path)])
    next(records)
    assert opened() == 1
    list(records)
    assert opened() == 0
    with pytest.raises(FileReadError):
        list(read_with(Counter(), reader=ProgramReader(lambda file: 1 // 0))(0, [pieces(path)]))  # type: ignore[arg-type,return-value]
    assert opened() == 0


def test_receiver_can_be_pickled() -> None:
    read = ReadPieces(fs.LocalFileSystem(), LineReader(), cast(Any, None), 7000)
    again = pickle.loads(pickle.dumps(read))
    assert isinstance(again.filesystem, fs.LocalFileSystem)
    assert again.reader == LineReader()
