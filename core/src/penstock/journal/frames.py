"""Frames: records on a disk that may lie.

Owns the form of one record (magic, version, length, checksum, payload) and the reading of many. Never gives a payload
that was not framed as such, never opens a file. Runs on whatever thread calls.

The checksum is CRC-32 from zlib, over version, length and payload: 0.15 µs for 250 bytes. CRC-32C would take 7 to 20
µs: neither the standard library nor Arrow has it, and Python is slow at it.
"""

from __future__ import annotations

import struct
import zlib

from attrs import frozen

from penstock.errors import WriteAheadLogError

# Its first byte is in no UTF-8 text: JSON cannot contain it.
MAGIC = b"\xf5PnJ"
VERSION = 1
#: The largest payload. Checked before a length is believed.
MAX_PAYLOAD_BYTES = 64 << 20

_LENGTH = struct.Struct(">BI")
_CHECKSUM = struct.Struct(">I")
HEAD_BYTES = len(MAGIC) + _LENGTH.size + _CHECKSUM.size


@frozen
class Frame:
    """A sound record.

    Attributes:
        start: the byte at which its frame begins.
        end: the byte behind it.
        payload: what was framed.
    """

    start: int
    end: int
    payload: bytes


@frozen
class Frames:
    """What a buffer holds.

    Attributes:
        sound: its records, in order.
        damages: ranges of bytes (from, to) that hold no record, though one follows.
        torn_at: the byte from which on there is no record to the end; ``None`` when the end is sound.
    """

    sound: tuple[Frame, ...]
    damages: tuple[tuple[int, int], ...] = ()
    torn_at: int | None = None


def frame(payload: bytes) -> bytes:
    """Frame a record.

    Raises:
        WriteAheadLogError: it is larger than ``MAX_PAYLOAD_BYTES``.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise WriteAheadLogError(f"a record of {len(payload)} bytes is too large, {MAX_PAYLOAD_BYTES} are the most")
    head = _LENGTH.pack(VERSION, len(payload))
    return b"".join((MAGIC, head, _CHECKSUM.pack(zlib.crc32(payload, zlib.crc32(head))), payload))


def read_frames(buffer: bytes) -> Frames:
    """Read all records of a buffer.

    Raises:
        WriteAheadLogError: a sound record has a version that this code does not know.
    """
    sound: list[Frame] = []
    damages: list[tuple[int, int]] = []
    position = 0
    while position < len(buffer):
        found = _sound_frame(buffer, position)
        if found is None:
            found = _next_sound_frame(buffer, position + 1)
            if found is None:
                return Frames(tuple(sound), tuple(damages), torn_at=position)
            damages.append((position, found.start))
        sound.append(found)
        position = found.end
    return Frames(tuple(sound), tuple(damages))


def _next_sound_frame(buffer: bytes, position: int) -> Frame | None:
    while (position := buffer.find(MAGIC, position)) >= 0:
        found = _sound_frame(buffer, position)
        if found is not None:
            return found
        position += 1
    return None


def _sound_frame(buffer: bytes, start: int) -> Frame | None:
    body = start + HEAD_BYTES
    if body > len(buffer) or not buffer.startswith(MAGIC, start):
        return None
    version, length = _LENGTH.unpack_from(buffer, start + len(MAGIC))
    end = body + length
    if length > MAX_PAYLOAD_BYTES or end > len(buffer):
        return None
    payload = buffer[body:end]
    head = buffer[start + len(MAGIC) : start + len(MAGIC) + _LENGTH.size]
    if (zlib.crc32(payload, zlib.crc32(head)),) != _CHECKSUM.unpack_from(buffer, body - _CHECKSUM.size):
        return None
    if version != VERSION:
        raise WriteAheadLogError(f"a record at byte {start} has the form {version}, and only {VERSION} is known here")
    return Frame(start, end, payload)
