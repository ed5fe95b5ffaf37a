"""A segment: one file of the journal.

Owns the form of its records, as JSON in frames: first a header, then, if the header says so, the state as it was when
the segment was begun, then numbered events. Knows nothing of other segments. Runs on whatever thread calls.
"""

from __future__ import annotations

import json
import re
from typing import Any

from attrs import field, frozen

from penstock.errors import WriteAheadLogError
from penstock.journal.frames import Frame, frame, read_frames
from penstock.storage.directory import Directory

#: What the owner of the journal puts in: an object of JSON.
Event = dict[str, Any]

_NAME = re.compile(r"journal-(\d{10})")
_FORM = 1
# The number of what is no event, but a part of the state.
_STATE = 0

_encode = json.JSONEncoder(separators=(",", ":")).encode


def segment_name(number: int) -> str:
    """The name of a segment's file."""
    return f"journal-{number:010d}"


def segment_numbers(directory: Directory) -> list[int]:
    """The segments that a folder has, by their numbers, the oldest first."""
    return sorted(int(match[1]) for name in directory.names() if (match := _NAME.fullmatch(name)))


@frozen
class Header:
    """The first record of a segment.

    Attributes:
        run: whose journal it is.
        first: the number of the first event in it; 1 is the first of all.
        state: of how many records the state is that precedes the events; ``None`` when there is no state.
    """

    run: str
    first: int
    state: int | None = None

    def record(self) -> bytes:
        """It, framed."""
        header = {"journal": _FORM, "run": self.run, "first": self.first, "state": self.state}
        return frame(_encode(header).encode())


@frozen
class NumberedEvent:
    """An event as it was read.

    Attributes:
        number: in the order of all of the run's events.
        event: what the owner put in.
        end: the byte behind it.
    """

    number: int
    event: Event
    end: int


@frozen
class Segment:
    """What a segment's file holds.

    Attributes:
        number: of the segment.
        location: of the file.
        header: its first record; ``None`` when that cannot be read.
        state: the records of the state that are sound.
        events: those that are sound, in the order in which they are there.
        damages: ranges of bytes that hold no sound record, though one follows.
        torn_at: the byte from which on there is none to the end.
        num_bytes: the size of the file.
    """

    number: int
    location: str
    header: Header | None
    state: tuple[Event, ...] = field(repr=False)
    events: tuple[NumberedEvent, ...] = field(repr=False)
    damages: tuple[tuple[int, int], ...]
    torn_at: int | None
    num_bytes: int

    @property
    def has_state(self) -> bool:
        """Whether the state is there, and whole."""
        return self.header is not None and self.header.state == len(self.state)

    @property
    def is_blank(self) -> bool:
        """Whether nothing in it can be read: it was being begun."""
        return self.header is None and not self.state and not self.events

    def end_before(self, number: int) -> int:
        """The byte at which an event should begin that is not there."""
        ends = [each.end for each in self.events if each.number < number]
        damage = self.damages[0][0] if self.damages else self.num_bytes
        return ends[-1] if ends else min(damage, self.num_bytes if self.torn_at is None else self.torn_at)

    @classmethod
    def read(cls, directory: Directory, number: int) -> Segment:
        """Read a segment's file.

        Raises:
            OSError: the file system does not give it.
            WriteAheadLogError: a sound record in it is not of a form that is known here.
        """
        name = segment_name(number)
        location = directory.location(name)
        data = directory.read(name)
        try:
            frames = read_frames(data)
            header, records = _header(frames.sound)
            numbered = [_record(each) for each in records]
        except (WriteAheadLogError, ValueError, TypeError, KeyError) as error:
            raise WriteAheadLogError(f"{location} was written by another version of Penstock: {error}") from error
        return cls(
            number,
            location,
            header,
            tuple(each.event for each in numbered if each.number == _STATE),
            tuple(each for each in numbered if each.number != _STATE),
            frames.damages,
            frames.torn_at,
            len(data),
        )


def state_record(event: Event) -> bytes:
    """A part of the state, framed."""
    return event_record(_STATE, encoded(event))


def encoded(event: Event) -> bytes:
    """An event as JSON.

    Raises:
        TypeError: something in it has no JSON.
    """
    return _encode(event).encode()


def event_record(number: int, event: bytes) -> bytes:
    """An event that was encoded, with its number, framed.

    Raises:
        WriteAheadLogError: it is too large.
    """
    return frame(b"[%d,%b]" % (number, event))


def _header(frames: tuple[Frame, ...]) -> tuple[Header | None, tuple[Frame, ...]]:
    """The header, if the first record is one, and the other records."""
    content = json.loads(frames[0].payload) if frames else None
    if not isinstance(content, dict):
        return None, frames
    if content["journal"] != _FORM:
        raise ValueError(f"its form is {content['journal']}, and only {_FORM} is known here")
    return Header(str(content["run"]), int(content["first"]), content["state"]), frames[1:]


def _record(found: Frame) -> NumberedEvent:
    number, event = json.loads(found.payload)
    if not isinstance(number, int) or not isinstance(event, dict):
        raise TypeError(f"the record at byte {found.start} is no event")
    return NumberedEvent(number, event, found.end)
