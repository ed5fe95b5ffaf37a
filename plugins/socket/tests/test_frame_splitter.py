"""``FrameSplitter`` splits bytes into frames, wherever they are cut, and rejects invalid lengths."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from plugins.socket.tests.conftest import cut, framed
from tests.helpers.examples import examples

from penstock_socket.frame_splitter import FrameSplitter


def split(
    pieces: list[bytes], *, max_frame_bytes: int = 1 << 20, chunk: int = 64, eager: bool = True
) -> tuple[list[bytes], Exception | None]:
    splitter = FrameSplitter(max_frame_bytes, chunk)
    frames: list[bytes] = []

    def take() -> None:
        column = splitter.take()
        if column is not None:
            assert column.type == pa.binary()
            column.validate(full=True)
            frames.extend(column.to_pylist())

    for piece in pieces:
        while piece and splitter.fault is None:
            space = splitter.space(len(piece))
            count = len(space)
            space[:], piece = piece[:count], piece[count:]
            splitter.advance(count)
            if eager or splitter.is_full:
                take()
    splitter.end()
    take()
    return frames, splitter.fault


@settings(deadline=None, max_examples=examples(100))
@given(
    bodies=st.lists(st.binary(max_size=100), max_size=30),
    places=st.lists(st.integers(0, 4000), max_size=20),
    chunk=st.integers(1, 200),
    eager=st.booleans(),
)
def test_any_bytes_cut_anywhere_give_the_same_records(
    bodies: list[bytes], places: list[int], chunk: int, eager: bool
) -> None:
    pieces = cut(framed(*bodies), places)
    assert split(pieces, max_frame_bytes=100, chunk=chunk, eager=eager) == (bodies, None)


@pytest.mark.parametrize("left", [1, 3, 4, 5, 12])
def test_end_inside_a_frame_is_a_fault(left: int) -> None:
    frames, fault = split([framed(b"whole") + framed(b"not whole")[:left]])
    assert frames == [b"whole"]
    assert isinstance(fault, EOFError)
    assert f"after {left} of its bytes" in str(fault)


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("length", [-1, -(1 << 31), (1 << 31) - 1, 101])
def test_invalid_frame_length_is_a_fault(length: int, eager: bool) -> None:
    data = framed(b"good", b"x" * 100) + struct.pack(">i", length) + b"y" * 500 + framed(b"not trusted")
    frames, fault = split([data], max_frame_bytes=100, eager=eager)
    assert frames == [b"good", b"x" * 100]
    assert isinstance(fault, ValueError)
    assert f"a frame of {length} bytes" in str(fault)
    assert "max_frame_bytes" in str(fault)


def test_announced_length_allocates_nothing() -> None:
    splitter = FrameSplitter(1 << 30, chunk=1000)
    header = struct.pack(">i", 1 << 30)
    splitter.space(4)[:] = header
    splitter.advance(4)
    assert splitter.take() is None
    assert splitter.fault is None
    assert len(splitter.space(1 << 30)) == 996
    splitter.advance(996)
    assert splitter.take() is None
    assert len(splitter.space(1 << 30)) == 1000  # as much again as has come


def test_column_does_not_change_when_more_is_received() -> None:
    splitter = FrameSplitter(100, chunk=16)
    columns = []
    for body in (b"first", b"other"):
        data = framed(body)
        splitter.space(len(data))[:] = data
        splitter.advance(len(data))
        columns.append(splitter.take())
    assert [column.to_pylist() for column in columns] == [[b"first"], [b"other"]]
