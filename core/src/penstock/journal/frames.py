"""Frames: records with a checksum, in a file whose bytes may be damaged.

A frame is magic, version, length, checksum and payload. A payload is returned only if its checksum matches: zlib's
CRC-32 over version, length and payload. CRC-32C would be 50 times slower, because neither the standard library nor
Arrow offers it.
"""

from __future__ import annotations

import struct
import zlib

from attrs import frozen

from penstock.errors import WriteAheadLogError, other_version

# The first byte occurs in no UTF-8 text, so JSON cannot contain the magic.
MAGIC = b"\xf5PnJ"
VERSION = 1
#: The largest payload. A length is checked against it before it is used.
MAX_PAYLOAD_BYTES = 64 << 20

_LENGTH = struct.Struct(">BI")
_CHECKSUM = struct.Struct(">I")
HEAD_BYTES = len(MAGIC) + _LENGTH.size + _CHECKSUM.size


@frozen
class Frame:
    """A sound record; ``start`` and ``end`` are the offsets of its first byte and after its last byte."""

    start: int
    end: int
    payload: bytes


@frozen
class Frames:
    """The sound records of a buffer, and the byte ranges (from, to) without one that a sound record follows.

    After the offset ``truncated_at`` no sound record follows; ``None`` if the last one ends the buffer.
    """

    sound: tuple[Frame, ...]
    damages: tuple[tuple[int, int], ...] = ()
    truncated_at: int | None = None


def frame(payload: bytes) -> bytes:
    """Frame a record; refused if it is larger than ``MAX_PAYLOAD_BYTES``."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise WriteAheadLogError(f"a record of {len(payload)} bytes is too large; the limit is {MAX_PAYLOAD_BYTES}")
    head = _LENGTH.pack(VERSION, len(payload))
    return b"".join((MAGIC, head, _CHECKSUM.pack(zlib.crc32(payload, zlib.crc32(head))), payload))


def read_frames(buffer: bytes) -> Frames:
    """Read all sound records of a buffer; refused if one of them has another format version."""
    sound: list[Frame] = []
    damages: list[tuple[int, int]] = []
    position = 0
    while position < len(buffer):
        record = _next_sound_frame(buffer, position)
        if record is None:
            return Frames(tuple(sound), tuple(damages), truncated_at=position)
        if record.start > position:
            damages.append((position, record.start))
        sound.append(record)
        position = record.end
    return Frames(tuple(sound), tuple(damages))


def _next_sound_frame(buffer: bytes, position: int) -> Frame | None:
    while (position := buffer.find(MAGIC, position)) >= 0:
        record = _sound_frame(buffer, position)
        if record is not None:
            return record
        position += 1
    return None


def _sound_frame(buffer: bytes, start: int) -> Frame | None:
    body = start + HEAD_BYTES
    if body > len(buffer):
        return None
    version, length = _LENGTH.unpack_from(buffer, start + len(MAGIC))
    end = body + length
    if length > MAX_PAYLOAD_BYTES or end > len(buffer):
        return None
    payload = buffer[body:end]
    head = buffer[start + len(MAGIC) : body - _CHECKSUM.size]
    if (zlib.crc32(payload, zlib.crc32(head)),) != _CHECKSUM.unpack_from(buffer, body - _CHECKSUM.size):
        return None
    if version != VERSION:
        raise WriteAheadLogError(other_version(f"the record at byte {start}", version, VERSION))
    return Frame(start, end, payload)
