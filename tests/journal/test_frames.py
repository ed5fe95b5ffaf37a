"""Frames: whatever happens to the bytes, what is read was written."""

from __future__ import annotations

import random
import struct
import zlib

import pytest
from hypothesis import given, settings, strategies as st
from tests.helpers.examples import examples

from penstock.errors import WriteAheadLogError
from penstock.journal import segment
from penstock.journal.segment import HEAD_BYTES, MAGIC, MAX_PAYLOAD_BYTES, frame, read_frames

PAYLOADS = [b'{"n":1}', b"", b"a longer one " * 5, b"\x00\xff\xf5", b"last"]
BUFFER = b"".join(map(frame, PAYLOADS))


def payloads(buffer: bytes) -> list[bytes]:
    return [each.payload for each in read_frames(buffer)]


def spans(buffer: bytes) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in read_frames(buffer)]


def is_part_of(some: list[bytes], whole: list[bytes]) -> bool:
    """Whether they are there in that order, with others between."""
    rest = iter(whole)
    return all(each in rest for each in some)


def test_framed_records_are_read_back() -> None:
    assert payloads(BUFFER) == PAYLOADS
    assert [BUFFER[start:end] for start, end in spans(BUFFER)] == [frame(payload) for payload in PAYLOADS]


def test_empty_buffer_has_no_records() -> None:
    assert read_frames(b"") == []


def test_flip_of_any_bit_gives_no_wrong_payload() -> None:
    whole = spans(BUFFER)
    for bit in range(len(BUFFER) * 8):
        flipped = bytearray(BUFFER)
        flipped[bit // 8] ^= 1 << bit % 8
        assert is_part_of(payloads(bytes(flipped)), PAYLOADS)
        # Only the record that has the bit is missing.
        assert spans(bytes(flipped)) == [(start, end) for start, end in whole if not start <= bit // 8 < end]


def test_truncation_at_any_byte_gives_the_records_before_it() -> None:
    whole = spans(BUFFER)
    for size in range(len(BUFFER)):
        assert spans(BUFFER[:size]) == [(start, end) for start, end in whole if end <= size]


def test_records_after_damage_are_read_at_their_offsets() -> None:
    first, second, third = (frame(payload) for payload in (b"one", b"two", b"three"))
    damaged = first + b"?" + second[1:] + third
    assert payloads(damaged) == [b"one", b"three"]
    assert spans(damaged) == [(0, len(first)), (len(first + second), len(damaged))]
    assert spans(first + b"\x00" * 4096 + second)[1][0] == len(first) + 4096


def test_garbage_after_sound_records_is_no_record() -> None:
    for garbage in (b"garbage", b"\x00" * 100, MAGIC, MAGIC * 50, frame(b"x" * 50)[:-1]):
        assert spans(frame(b"one") + garbage) == [(0, len(frame(b"one")))]


def test_wrong_length_is_not_followed() -> None:
    head = struct.pack(">BI", 1, MAX_PAYLOAD_BYTES + 1)
    lie = MAGIC + head + struct.pack(">I", zlib.crc32(head))
    assert read_frames(lie + b"x" * 100) == []
    assert payloads(lie + frame(b"one")) == [b"one"]


def test_oversized_record_is_not_read() -> None:
    payload = bytes(MAX_PAYLOAD_BYTES + 1)
    head = struct.pack(">BI", 1, len(payload))
    large = MAGIC + head + struct.pack(">I", zlib.crc32(payload, zlib.crc32(head))) + payload
    assert payloads(large + frame(b"one")) == [b"one"]


def test_oversized_payload_is_refused() -> None:
    with pytest.raises(WriteAheadLogError, match="too large"):
        frame(bytes(MAX_PAYLOAD_BYTES + 1))


def test_record_of_the_largest_size_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "MAX_PAYLOAD_BYTES", 100)
    assert payloads(frame(bytes(100))) == [bytes(100)]
    with pytest.raises(WriteAheadLogError, match="a record of 101 bytes is too large; the limit is 100"):
        frame(bytes(101))


def test_sound_record_of_another_version_is_refused_by_version() -> None:
    head = struct.pack(">BI", 2, 3)
    later = MAGIC + head + struct.pack(">I", zlib.crc32(b"new", zlib.crc32(head))) + b"new"
    assert len(later) == HEAD_BYTES + 3
    with pytest.raises(
        WriteAheadLogError, match="has format version 2 and this version of Penstock reads version 1: run"
    ):
        read_frames(frame(b"one") + later)


@given(st.lists(st.binary(max_size=40), max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=examples(100), derandomize=True, deadline=None)
def test_any_payload_is_read_back_and_random_damage_creates_none(some: list[bytes], rng: random.Random) -> None:
    buffer = bytearray(b"".join(map(frame, some)))
    assert payloads(bytes(buffer)) == some
    for _ in range(min(3, len(buffer))):
        buffer[rng.randrange(len(buffer))] = rng.randrange(256)
    assert is_part_of(payloads(bytes(buffer)), some)
