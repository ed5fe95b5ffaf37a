"""A segment: one file of the write-ahead log.

A segment consists of JSON records in frames: a header; the owner's state when the segment began, if the header says so;
then numbered events.
"""

from __future__ import annotations

import json
import re
from typing import Any

from attrs import field, frozen

from penstock.errors import WriteAheadLogError, other_version
from penstock.journal.frames import Frame, frame, read_frames
from penstock.storage.directory import Directory

#: A JSON object that the log's owner appends.
Event = dict[str, Any]

#: The number of a record that is part of the state; events are numbered from 1.
STATE = 0

_NAME = re.compile(r"segment-(\d{10})")
_VERSION = 1

_encode = json.JSONEncoder(separators=(",", ":")).encode


def segment_name(number: int) -> str:
    """The file name of a segment."""
    return f"segment-{number:010d}"


def segment_numbers(directory: Directory) -> list[int]:
    """The numbers of the segments in a directory, oldest first; other files are ignored."""
    return sorted(int(match[1]) for name in directory.names() if (match := _NAME.fullmatch(name)))


def encoded(event: Event) -> bytes:
    """Encode an event as JSON; raises TypeError for a value without a JSON form."""
    return _encode(event).encode()


def event_record(number: int, event: bytes) -> bytes:
    """Frame an encoded event with its number; the number of a state record is ``STATE``."""
    return frame(b"[%d,%b]" % (number, event))


@frozen
class Header:
    """The first record of a segment; ``first`` is the number of its first event.

    ``state`` is the number of state records before the events; ``None`` if the segment has no state.
    """

    run: str
    first: int
    state: int | None = None

    def record(self) -> bytes:
        """The header as a framed record."""
        header = {"version": _VERSION, "run": self.run, "first": self.first, "state": self.state}
        return frame(_encode(header).encode())


@frozen
class NumberedEvent:
    """An event with its position among all events of the run, from 1, and the offset after its record."""

    number: int
    event: Event
    end: int


@frozen
class Segment:
    """The content of a segment's file: the sound state records, and the sound events in file order.

    Attributes:
        header: the first record; ``None`` if it cannot be read.
        damaged_at: offset of the first byte that belongs to no sound record; the size of the file if all do.
        truncated_bytes: number of bytes after the last sound record.
    """

    number: int
    location: str
    header: Header | None
    state: tuple[Event, ...] = field(repr=False)
    events: tuple[NumberedEvent, ...] = field(repr=False)
    damaged_at: int
    truncated_bytes: int = 0

    @property
    def has_state(self) -> bool:
        return self.header is not None and self.header.state == len(self.state)

    @property
    def is_blank(self) -> bool:
        """Whether no record can be read, as when the driver died while it began the segment."""
        return self.header is None and not self.state and not self.events

    @property
    def first(self) -> int:
        return self.header.first if self.header else 1

    def end_before(self, number: int) -> int:
        """The offset at which a missing event should begin."""
        ends = [event.end for event in self.events if event.number < number]
        return ends[-1] if ends else self.damaged_at

    @classmethod
    def read(cls, directory: Directory, number: int) -> Segment:
        """Read a segment's file; raises WriteAheadLogError if a sound record has an unknown format."""
        location = directory.location(segment_name(number))
        data = directory.read(segment_name(number))
        try:
            frames = read_frames(data)
            header, records = _header(frames.sound)
            numbered = [_event(record) for record in records]
        except (WriteAheadLogError, ValueError, TypeError, KeyError) as error:
            raise WriteAheadLogError(f"{location} was written by another version of Penstock: {error}") from error
        sound_bytes = len(data) if frames.truncated_at is None else frames.truncated_at
        return cls(
            number,
            location,
            header,
            tuple(record.event for record in numbered if record.number == STATE),
            tuple(record for record in numbered if record.number != STATE),
            frames.damages[0][0] if frames.damages else sound_bytes,
            len(data) - sound_bytes,
        )


def _header(frames: tuple[Frame, ...]) -> tuple[Header | None, tuple[Frame, ...]]:
    """The header, ``None`` if the first record is something else; and the other records."""
    content = json.loads(frames[0].payload) if frames else None
    if not isinstance(content, dict):
        return None, frames
    if (version := content.get("version")) != _VERSION:
        raise ValueError(other_version("its header", version, _VERSION))
    return Header(str(content["run"]), int(content["first"]), content["state"]), frames[1:]


def _event(record: Frame) -> NumberedEvent:
    number, event = json.loads(record.payload)
    if not isinstance(number, int) or not isinstance(event, dict):
        raise TypeError(f"the record at byte {record.start} is not an event")
    return NumberedEvent(number, event, record.end)
