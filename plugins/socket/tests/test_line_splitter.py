"""``LineSplitter`` splits bytes into lines, wherever they are cut, like a simple reference implementation."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from plugins.socket.tests.conftest import cut
from tests.helpers.examples import examples

from penstock.spi import ErrorCounts, LineRules
from penstock_socket.line_splitter import LineSplitter

ROOMY = 1 << 20


def split(
    pieces: list[bytes], *, max_line_bytes: int = ROOMY, refuse: bool = False, chunk: int = 64, eager: bool = True
) -> tuple[list[str], ErrorCounts]:
    errors = ErrorCounts()
    splitter = LineSplitter(LineRules(max_line_bytes, refuse), errors, chunk)
    lines: list[str] = []

    def take() -> None:
        column = splitter.take()
        assert splitter.pending == 0  # nothing is searched twice
        if column is not None:
            assert column.type == pa.string()
            column.validate(full=True)
            lines.extend(column.to_pylist())

    for piece in pieces:
        while piece:
            space = splitter.space(len(piece))
            count = len(space)
            space[:], piece = piece[:count], piece[count:]
            splitter.advance(count)
            if eager or splitter.is_full:
                take()
    splitter.end()
    take()
    assert splitter.pending == 0
    assert splitter.take() is None
    return lines, errors


def simple_split(data: bytes, max_line_bytes: int = ROOMY, refuse: bool = False) -> tuple[list[str], int, int]:
    lines, too_long, not_utf8 = [], 0, 0
    parts = data.split(b"\n")
    for line in parts if parts[-1] else parts[:-1]:
        line = line.removesuffix(b"\r")
        if len(line) > max_line_bytes:
            too_long += 1
            continue
        try:
            lines.append(line.decode())
        except UnicodeDecodeError:
            not_utf8 += 1
            if not refuse:
                lines.append(line.decode(errors="replace"))
    return lines, too_long, not_utf8


ATOMS = [
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\0",
    b"a",
    b"word ",
    "é".encode(),
    "🚰".encode(),
    b"\xff",
    b"\xf0\x9f",
    b"-" * 30,
]
PAYLOADS = st.one_of(st.binary(max_size=300), st.lists(st.sampled_from(ATOMS), max_size=60).map(b"".join))


@settings(deadline=None, max_examples=examples(150))
@given(
    data=PAYLOADS,
    places=st.lists(st.integers(0, 1000), max_size=20),
    max_line_bytes=st.integers(1, 50),
    refuse=st.booleans(),
    chunk=st.integers(1, 80),
    eager=st.booleans(),
)
def test_any_bytes_cut_anywhere_give_the_same_records(
    data: bytes, places: list[int], max_line_bytes: int, refuse: bool, chunk: int, eager: bool
) -> None:
    lines, errors = split(cut(data, places), max_line_bytes=max_line_bytes, refuse=refuse, chunk=chunk, eager=eager)
    expected, too_long, not_utf8 = simple_split(data, max_line_bytes, refuse)
    assert lines == expected
    counted = Counter(
        {
            f"lines longer than {max_line_bytes} bytes, dropped": too_long,
            f"lines that are not UTF-8, {'dropped' if refuse else 'with U+FFFD instead'}": not_utf8,
        }
    )
    assert errors.counts == +counted


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"\r", [""]),
        (b"\r\n", [""]),
        (b"a", ["a"]),
        (b"a\r", ["a"]),
        (b"a\r\r\n", ["a\r"]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\n\n", ["a", ""]),
        (b"\n\na", ["", "", "a"]),
        (b"\xef\xbb\xbfa\n", ["\ufeffa"]),
    ],
)
def test_line_endings_are_recognized(data: bytes, expected: list[str]) -> None:
    assert split([data])[0] == expected


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc3", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xf0\x9f\x9a"]
)
def test_malformed_utf8_affects_only_its_line(bad: bytes) -> None:
    data = b"before\nx" + bad + b"\n" + "é\n".encode()
    replaced, errors = split([data])
    assert replaced == ["before", (b"x" + bad).decode(errors="replace"), "é"]
    assert errors.counts == {"lines that are not UTF-8, with U+FFFD instead": 1}
    refused, errors = split([data], refuse=True)
    assert refused == ["before", "é"]
    assert errors.counts == {"lines that are not UTF-8, dropped": 1}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b""])
@pytest.mark.parametrize(("length", "fits"), [(9, True), (10, True), (11, False), (12, False), (13, False)])
@pytest.mark.parametrize("chunk", [1, 11, 12, 13, 100])
def test_line_of_maximum_length_is_accepted(length: int, fits: bool, end: bytes, chunk: int) -> None:
    more = b"more\n" if end.endswith(b"\n") else b""
    for place in range(length + len(end)):
        data = b"x" * length + end + more
        lines, errors = split(cut(data, [place]), max_line_bytes=10, chunk=chunk)
        assert lines == ["x" * length] * fits + ["more"] * bool(more)
        assert sum(errors.counts.values()) == (not fits)


def test_line_that_is_too_long_is_never_in_memory() -> None:
    errors = ErrorCounts()
    splitter = LineSplitter(LineRules(1000), errors, chunk=256)
    for _ in range(10_000):
        space = splitter.space(100)
        space[:] = b"x" * len(space)
        splitter.advance(len(space))
        assert splitter.take() is None
        assert len(splitter.space(1 << 30)) <= 1002
    splitter.space(3)[:] = b"\na\n"
    splitter.advance(3)
    assert splitter.take().to_pylist() == ["a"]
    assert list(errors.counts.values()) == [1]


def test_column_does_not_change_when_more_is_received() -> None:
    splitter = LineSplitter(LineRules(ROOMY), ErrorCounts(), chunk=16)
    splitter.space(6)[:] = b"first\n"
    splitter.advance(6)
    column = splitter.take()
    splitter.space(6)[:] = b"other\n"
    splitter.advance(6)
    assert splitter.take().to_pylist() == ["other"]
    assert column.to_pylist() == ["first"]


def test_splitting_does_not_import_pandas() -> None:
    code = """
import sys
from penstock.spi import LineRules
from penstock.spi import ErrorCounts
from penstock_socket.line_splitter import LineSplitter
splitter = LineSplitter(LineRules(100), ErrorCounts())
splitter.space(4)[:] = b"a\\r\\nb"
splitter.advance(4)
assert splitter.take().to_pylist() == ["a"]
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
