"""Readers return the same records from pieces as from the whole file."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st
from pyarrow import fs

from penstock_file.errors import FileReadError
from penstock_file.file_bytes import FileBytes
from penstock_file.pieces import FilePiece
from penstock_file.readers import LineReader, ProgramReader, Reader, RecordReader, decoded_lines, line_blocks

LOCAL = fs.LocalFileSystem()
MARK = b"\xef\xbb\xbf"
# What matters to the splitting, and bytes that are no UTF-8 or only part of a character.
TOKENS = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"a", b"bc", b"\xc3\xa9", b"\xe2\x82", b"\xff", b"\xc2\x85", b"\x0b", MARK]
)
TEXT = st.lists(TOKENS, max_size=40).map(b"".join)


def expected_lines(data: bytes) -> list[str]:
    """What a line is, said in another way."""
    lines = re.split(rb"\r\n|\n|\r", data.removeprefix(MARK))
    if not lines[-1]:
        lines.pop()
    return [line.decode("utf-8", "replace") for line in lines]


def lines_of(data: bytes, start: int, stop: int, chunk: int) -> list[str]:
    file = io.BytesIO(data)
    file.seek(max(start - 1, 0))
    return list(itertools.chain.from_iterable(map(decoded_lines, line_blocks(file.read, start, stop, chunk))))


@settings(deadline=None)
@given(TEXT, st.integers(1, 50))
def test_whole_file_gives_all_lines(data: bytes, chunk: int) -> None:
    assert lines_of(data, 0, len(data), chunk) == expected_lines(data)


@settings(deadline=None)
@given(TEXT, st.lists(st.integers(0, 120), max_size=6), st.integers(1, 50))
@example(b"a\r\nb", [2], 1)
@example(b"a\r\nb", [2, 3], 50)
@example(MARK + b"a\nb", [1, 2, 3], 50)
def test_pieces_give_what_the_whole_gives(data: bytes, cuts: list[int], chunk: int) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [lines_of(data, start, stop, chunk) for start, stop in itertools.pairwise(edges) if start < stop]
    assert list(itertools.chain.from_iterable(pieces)) == expected_lines(data)


def test_line_longer_than_many_chunks_is_read_in_linear_time() -> None:
    data = b"x" * 20_000_000 + b"\ny"
    assert [len(line) for line in lines_of(data, 0, len(data), 1 << 12)] == [20_000_000, 1]
    assert [len(line) for line in lines_of(data, 0, 10, 1 << 12)] == [20_000_000]


# -- from files --


def read(path: Path, reader: Reader, start: int = 0, stop: int | None = None, size: int | None = None) -> list[Any]:
    size = path.stat().st_size if size is None else size
    piece = FilePiece(0, str(path), start, size if stop is None else stop, size)
    with FileBytes(LOCAL, piece) as data:
        return list(itertools.chain.from_iterable(reader.runs(data, piece)))


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def put(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return put


Put = Callable[[str, bytes], Path]


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
def test_every_line_of_a_file_is_read(put: Put, chunk: int) -> None:
    path = put("a", b"one\r\ntwo\n\nthr\xffee\rfour")
    lines = ["one", "two", "", "thr�ee", "four"]
    assert read(path, LineReader(chunk)) == lines
    assert read(path, LineReader(chunk), 0, 4) + read(path, LineReader(chunk), 4) == lines


def test_what_was_appended_later_is_not_read(put: Put) -> None:
    path = put("a", b"one\ntwo\nthree\n")
    assert read(path, LineReader(), size=6) == ["one", "tw"]
    assert read(path, RecordReader(4), size=8) == [b"one\n", b"two\n"]
    assert read(path, ProgramReader(lambda file: [file.read()]), size=5) == [b"one\nt"]


def test_file_that_has_shrunk_is_an_error(put: Put) -> None:
    path = put("a", b"one\n")
    with pytest.raises(OSError, match="had 9 bytes when it was selected and has 4 bytes now"):
        read(path, LineReader(), size=9)


def test_file_that_shrinks_while_it_is_read_is_an_error(put: Put) -> None:
    path = put("a", b"one\n" * 100_000)
    piece = FilePiece(0, str(path), 0, 400_000, 400_000)
    with FileBytes(LOCAL, piece) as data:
        runs = LineReader(1000).runs(data, piece)
        next(runs)
        path.write_bytes(b"")
        with pytest.raises(OSError, match="when it was selected"):
            list(runs)


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def lz4(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "a.gz": gzip.compress,
    "a.bz2": bz2.compress,
    "a.zst": zstd,
    "a.lz4": lz4,
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_files_are_read_as_plain_ones(put: Put, name: str) -> None:
    text = b"".join(b"line %d\r\n" % number for number in range(100_000))
    path = put(name, COMPRESSED[name](text))
    assert read(path, LineReader()) == expected_lines(text)
    assert read(path, ProgramReader(lambda file: file.read().split(b"\r\n")[:-1])) == text.split(b"\r\n")[:-1]
    path = put(name, COMPRESSED[name](b"123456" * 1000))
    assert read(path, RecordReader(6)) == [b"123456"] * 1000


def test_concatenated_compressed_files_are_read(put: Put) -> None:
    assert read(put("a.gz", gzip.compress(b"one\n") + gzip.compress(b"two\n")), LineReader()) == ["one", "two"]


@pytest.mark.parametrize("data", [b"no such thing" * 20, gzip.compress(b"one\n" * 1000)[:-5]])
def test_broken_compressed_file_is_an_error(put: Put, data: bytes) -> None:
    with pytest.raises(OSError, match=r"zlib|ompressed"):
        read(put("a.gz", data), LineReader())


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(1, 9), st.integers(1, 30), st.lists(st.integers(0, 60), max_size=4))
def test_records_of_fixed_length_are_cut_at_their_length(data: bytes, length: int, chunk: int, cuts: list[int]) -> None:
    data = data[: len(data) - len(data) % length]
    edges = [0, *sorted(min(cut * length, len(data)) for cut in cuts), len(data)]
    filesystem = Memory(data)
    records: list[bytes] = []
    for start, stop in itertools.pairwise(edges):
        piece = FilePiece(0, "a", start, stop, len(data))
        with FileBytes(filesystem, piece) as file:
            records += itertools.chain.from_iterable(RecordReader(length, chunk).runs(file, piece))
    assert records == [data[start : start + length] for start in range(0, len(data), length)]


@settings(deadline=None)
@given(TEXT, st.integers(1, 9), st.integers(1, 30), st.lists(st.integers(0, 60), max_size=4))
@example(b"\n", 1, 1, [])
@example(b"\r\n\xff\n", 2, 30, [2])
def test_columns_hold_the_same_records(data: bytes, length: int, chunk: int, cuts: list[int]) -> None:
    for reader in (LineReader(chunk), RecordReader(length, chunk)):
        whole = data[: len(data) - len(data) % length] if isinstance(reader, RecordReader) else data
        unit = reader.unit or 1
        edges = [0, *sorted(min(cut * unit, len(whole)) for cut in cuts), len(whole)]
        for start, stop in itertools.pairwise(edges):
            piece = FilePiece(0, "a", start, stop, len(whole))
            with FileBytes(Memory(whole), piece) as file:
                columns = list(reader.columns(file, piece))
            with FileBytes(Memory(whole), piece) as file:
                runs = list(reader.runs(file, piece))
            assert [column.to_pylist() for column in columns] == runs
            assert {column.type for column in columns} <= {reader.column_type}


class Memory:
    """A file system of one file, which is not this machine's."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def open_input_file(self, _path: str) -> Any:
        return pa.BufferReader(self._data)


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_size_that_is_no_multiple_is_an_error(put: Put, name: str) -> None:
    data = b"1234567"
    path = put(name, gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(FileReadError, match=rf"{name} has 7 bytes, not a multiple of record_length=3"):
        read(path, RecordReader(3))


# -- functions of the program --


def test_function_gets_an_open_file(put: Put) -> None:
    path = put("a", b"one\ntwo\n")

    def by_line(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
        for line in file:
            yield file.name, line

    assert read(path, ProgramReader(by_line)) == [(str(path), b"one\n"), (str(path), b"two\n")]
    assert read(path, ProgramReader(lambda file: io.TextIOWrapper(file))) == ["one\n", "two\n"]


def test_function_may_seek(put: Put) -> None:
    def backwards(file: BinaryIO) -> list[Any]:
        end = file.seek(0, io.SEEK_END)
        file.seek(-3, io.SEEK_END)
        last = file.read()
        file.seek(2)
        at = file.tell()
        with pytest.raises(ValueError, match="negative"):
            file.seek(-9, io.SEEK_CUR)
        return [end, last, at, file.read(2), file.seekable()]

    assert read(put("a", b"0123456789"), ProgramReader(backwards), size=8) == [8, b"567", 2, b"23", True]
    with pytest.raises(FileReadError, match=r"UnsupportedOperation"):
        read(put("a.gz", gzip.compress(b"0123")), ProgramReader(backwards))


def test_function_may_leave_out_the_rest(put: Put) -> None:
    assert read(put("a", b"x" * 1_000_000), ProgramReader(lambda file: [file.read(1)])) == [b"x"]


def fails_at_once(_file: BinaryIO) -> Iterator[Any]:
    raise ValueError("not mine:\nat all")


def fails_later(file: BinaryIO) -> Iterator[Any]:
    yield file.read(1)
    raise ValueError("not mine: at all")


@pytest.mark.parametrize("function", [fails_at_once, fails_later])
def test_error_of_a_function_names_the_file(put: Put, function: Any) -> None:
    path = put("a", b"x")
    with pytest.raises(FileReadError, match=rf"read failed on {path}: ValueError: not mine: at all"):
        read(path, ProgramReader(function))


def stop_at_once(_file: BinaryIO) -> list[Any]:
    return [next(iter([]))]


def stop_inside(file: BinaryIO) -> Iterator[Any]:
    yield file.read(1)
    next(iter([]))


def stop_in_map(file: BinaryIO) -> Iterator[Any]:
    return map(lambda byte: next(iter([])) if byte == 120 else byte, file.read())  # noqa: C417  # the very case


@pytest.mark.parametrize("function", [stop_at_once, stop_inside, stop_in_map])
def test_stop_iteration_of_a_function_is_an_error(put: Put, function: Any) -> None:
    with pytest.raises(FileReadError, match="StopIteration"):
        read(put("a", b"axbc"), ProgramReader(function))


def test_what_is_no_iterable_is_an_error(put: Put) -> None:
    with pytest.raises(FileReadError, match="TypeError"):
        read(put("a", b"axbc"), ProgramReader(lambda file: 7))  # type: ignore[arg-type,return-value]
