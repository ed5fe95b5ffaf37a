"""A segment: one file of the write-ahead log. It consists of JSON records in frames.

The first is a header. The owner's state when the segment began follows, if the header says so; then numbered events.
Events that are committed together are one record, so that a power failure during the commit leaves all or none of them.

A frame is magic, version, length, checksum and payload. A payload is returned only if its checksum matches: zlib's
CRC-32 over version, length and payload. CRC-32C would be 50 times slower, because neither the standard library nor
Arrow offers it.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

from attrs import field, frozen

from penstock.errors import WriteAheadLogError, other_version
from penstock.storage.claim import FileNumber
from penstock.storage.directory import Directory

# The first byte occurs in no UTF-8 text, so JSON cannot contain the magic.
MAGIC = b"\xf5PnJ"
_FRAME_VERSION = 1
#: The largest payload in a segment. A length is checked against it before it is used.
MAX_PAYLOAD_BYTES = 64 << 20
#: The largest payload that a frame can have. A checkpoint, which is a file of one frame, may be that large.
MAX_FRAME_BYTES = (1 << 32) - 1

_LENGTH = struct.Struct(">BI")
_CHECKSUM = struct.Struct(">I")
HEAD_BYTES = len(MAGIC) + _LENGTH.size + _CHECKSUM.size

#: A JSON object that the log's owner appends.
Event = dict[str, Any]

#: The number of a record that is part of the state; events are numbered from 1.
STATE = 0

_HEADER_VERSION = 1

_encode = json.JSONEncoder(separators=(",", ":")).encode


@frozen
class Frame:
    """A sound record; ``start`` and ``end`` are the offsets of its first byte and after its last byte."""

    start: int
    end: int
    payload: bytes


def frame(payload: bytes, max_bytes: int | None = None) -> bytes:
    """Frame a record; refused if it is larger than a limit, by default ``MAX_PAYLOAD_BYTES``."""
    limit = MAX_PAYLOAD_BYTES if max_bytes is None else max_bytes
    if len(payload) > limit:
        raise WriteAheadLogError(f"a record of {len(payload)} bytes is too large; the limit is {limit}")
    head = _LENGTH.pack(_FRAME_VERSION, len(payload))
    return b"".join((MAGIC, head, _CHECKSUM.pack(zlib.crc32(payload, zlib.crc32(head))), payload))


def read_frames(buffer: bytes, max_bytes: int | None = None) -> list[Frame]:
    """Read all sound records of a buffer up to a size; refused if one of them has another format version."""
    limit = MAX_PAYLOAD_BYTES if max_bytes is None else max_bytes
    sound: list[Frame] = []
    position = 0
    while (position := buffer.find(MAGIC, position)) >= 0:
        record = _sound_frame(buffer, position, limit)
        if record is None:
            position += 1
        else:
            sound.append(record)
            position = record.end
    return sound


def _sound_frame(buffer: bytes, start: int, limit: int) -> Frame | None:
    body = start + HEAD_BYTES
    if body > len(buffer):
        return None
    version, length = _LENGTH.unpack_from(buffer, start + len(MAGIC))
    end = body + length
    if length > limit or end > len(buffer):
        return None
    payload = buffer[body:end]
    head = buffer[start + len(MAGIC) : body - _CHECKSUM.size]
    if (zlib.crc32(payload, zlib.crc32(head)),) != _CHECKSUM.unpack_from(buffer, body - _CHECKSUM.size):
        return None
    if version != _FRAME_VERSION:
        raise WriteAheadLogError(other_version(f"the record at byte {start}", version, _FRAME_VERSION))
    return Frame(start, end, payload)


def segment_name(number: FileNumber) -> str:
    """The file name of a segment."""
    return f"segment-{number}"


def segment_numbers(directory: Directory) -> list[FileNumber]:
    """The numbers of the segments in a directory, oldest first; other files are ignored."""
    return FileNumber.among("segment", directory.names())


def encoded(event: Event) -> bytes:
    """Encode an event as JSON; raises TypeError for a value without a JSON form."""
    return _encode(event).encode()


def event_record(number: int, *events: bytes) -> bytes:
    """Frame encoded events with the number of the first; the number of a state record is ``STATE``."""
    return frame(b"[%d,%b]" % (number, b",".join(events)))


def header_record(run: str, first: int, num_state: int | None = None) -> bytes:
    """The first record of a segment, framed; ``num_state`` is ``None`` for a segment without the state."""
    header = {"version": _HEADER_VERSION, "run": run, "first": first, "state": num_state}
    return frame(_encode(header).encode())


@frozen
class NumberedEvent:
    """An event with its position among all events of the run, from 1, and the offset after its record."""

    number: int
    event: Event
    end: int


@frozen
class Segment:
    """The sound records of a segment's file.

    ``run`` is ``None`` if the header cannot be read, and ``num_state`` if the segment has no state. ``damaged_at`` is
    the offset of the first byte that belongs to no sound record. ``truncated_bytes`` follow the last sound record.
    """

    number: FileNumber
    location: str
    run: str | None
    first: int
    num_state: int | None
    state: tuple[Event, ...] = field(repr=False)
    events: tuple[NumberedEvent, ...] = field(repr=False)
    damaged_at: int
    truncated_bytes: int = 0

    def end_before(self, number: int) -> int:
        """The offset at which a missing event should begin."""
        ends = [event.end for event in self.events if event.number < number]
        return ends[-1] if ends else self.damaged_at

    @classmethod
    def read(cls, directory: Directory, number: FileNumber) -> Segment:
        """Read a segment's file; raises WriteAheadLogError if a sound record has an unknown format."""
        location = directory.location(segment_name(number))
        data = directory.read(segment_name(number))
        try:
            frames = read_frames(data)
            header = _header(frames)
            records = frames if header is None else frames[1:]
            numbered = [event for record in records for event in _events(record)]
            run, first, num_state = (None, 1, None) if header is None else header
        except (WriteAheadLogError, ValueError, TypeError, KeyError) as error:
            raise WriteAheadLogError(f"{location} was written by another version of Penstock: {error}") from error
        damaged_at = 0
        for record in frames:
            if record.start == damaged_at:
                damaged_at = record.end
        return cls(
            number,
            location,
            run,
            first,
            num_state,
            tuple(record.event for record in numbered if record.number == STATE),
            tuple(record for record in numbered if record.number != STATE),
            damaged_at,
            len(data) - (frames[-1].end if frames else 0),
        )


def _header(frames: list[Frame]) -> tuple[str, int, int | None] | None:
    """Run, first number and state records from the header; ``None`` if the first record is something else."""
    content = json.loads(frames[0].payload) if frames else None
    if not isinstance(content, dict):
        return None
    if (version := content.get("version")) != _HEADER_VERSION:
        raise ValueError(other_version("its header", version, _HEADER_VERSION))
    return str(content["run"]), int(content["first"]), content["state"]


def _events(record: Frame) -> list[NumberedEvent]:
    first, *events = json.loads(record.payload)
    if not isinstance(first, int) or not all(isinstance(event, dict) for event in events):
        raise TypeError(f"the record at byte {record.start} contains no events")
    return [NumberedEvent(first and first + index, event, record.end) for index, event in enumerate(events)]
