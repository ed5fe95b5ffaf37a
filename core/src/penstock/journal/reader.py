"""``History``: what a folder of segments says has happened.

Owns the choice of the segments that count, and the judgement whether something is missing. Changes nothing in the
folder. Called when a run is recovered.

Why it is right: a segment is begun with the whole state (a base), or with the number of its first event. Nothing is
appended to a segment once a newer one was begun, and an event is acknowledged only when it, and its segment's base or
all events before it, are committed. So the newest base that is whole, and the events in it and behind it, are all that
was acknowledged. Where an event was written again, for want of a good answer, the newer segment's first number says
from where on the older one does not count. What counts is numbered without a gap, or something is missing.
"""

from __future__ import annotations

from attrs import frozen

from penstock import conf
from penstock.errors import WriteAheadLogError
from penstock.journal.segment import Event, NumberedEvent, Segment, segment_numbers
from penstock.storage.directory import Directory


@frozen
class History:
    """What has happened.

    Attributes:
        events: the parts of the state and the events behind it, in order.
        next_number: that of the next event.
        torn_bytes: what the last segment had behind its last sound record: the driver ended while it wrote.
        damages: what is missing, in words; always empty unless damage is skipped.
        lost: how many records are known to be missing.
    """

    events: tuple[Event, ...] = ()
    next_number: int = 1
    torn_bytes: int = 0
    damages: tuple[str, ...] = ()
    lost: int = 0

    @classmethod
    def read(cls, directory: Directory, run: str, *, skips_damage: bool) -> History:
        """Read what a run's segments say; nothing, when there are none of that run.

        Raises:
            WriteAheadLogError: a file cannot be read, or is damaged and damage is not skipped.
        """
        return _Reading(directory, run, skips_damage).history()


class _Reading:
    def __init__(self, directory: Directory, run: str, skips_damage: bool) -> None:
        self._directory, self._run, self._skips_damage = directory, run, skips_damage
        # Segments, newest first, of which it cannot be said that anything in them was ever acknowledged.
        self._begun: list[Segment] = []
        self._damages: list[str] = []
        self._lost = 0

    def history(self) -> History:
        base, following = self._segments()
        chain = [base, *following] if base else following
        if not chain:
            return History(damages=tuple(self._damages))
        numbered = self._numbered(chain)
        last = chain[-1]
        return History(
            (*(base.state if base else ()), *(each.event for each in numbered)),
            max(_first(last), numbered[-1].number + 1 if numbered else 1),
            0 if last.torn_at is None else last.num_bytes - last.torn_at,
            tuple(self._damages),
            self._lost,
        )

    def _segments(self) -> tuple[Segment | None, list[Segment]]:
        """The newest base, and the segments behind it, oldest first."""
        numbers = self._read_numbers()
        following: list[Segment] = []
        for number in reversed(numbers):
            segment = self._read(number)
            if segment.header is None:
                if segment.is_blank:
                    self._begun.append(segment)
                else:
                    self._missing(segment, 0, "its header, without which nothing in it counts,")
            elif segment.header.run != self._run:
                continue
            elif segment.header.state is None:
                following.insert(0, segment)
            elif segment.has_state:
                return segment, following
            elif segment.events:
                # There are events only behind a state that was whole.
                self._state_damaged(segment)
                return segment, following
            else:
                self._begun.append(segment)
        return self._without_base(numbers, following)

    def _without_base(self, numbers: list[int], following: list[Segment]) -> tuple[Segment | None, list[Segment]]:
        """There is no base that is whole: right only if the very first segment was being begun."""
        bases = [segment for segment in self._begun if segment.header is not None]
        if bases:
            self._state_damaged(bases[0])
            return bases[0], [segment for segment in following if segment.number > bases[0].number]
        if following:
            self._missing(following[0], 0, f"the state before event {_first(following[0])}")
        elif numbers and numbers[0] > 0 and len(self._begun) == len(numbers):
            self._missing(self._begun[-1], 0, "all of it")
        return None, following

    def _numbered(self, chain: list[Segment]) -> list[NumberedEvent]:
        """The events that count. A newer segment says from which number on the older ones do not."""
        found: list[NumberedEvent] = []
        expected, before = _first(chain[0]), chain[0]
        for segment in chain:
            first = _first(segment)
            while found and found[-1].number >= first:
                found.pop()
            if first > expected:
                between = (each for each in self._begun if before.number < each.number < segment.number)
                self._gone(next(between, before), expected, first)
            expected, before = first, segment
            for each in segment.events:
                if each.number > expected:
                    self._gone(segment, expected, each.number)
                if each.number >= expected:
                    found.append(each)
                    expected = each.number + 1
        return found

    def _gone(self, segment: Segment, first: int, behind: int) -> None:
        self._lost += behind - first
        what = f"event {first}" if behind == first + 1 else f"the events {first} to {behind - 1}"
        self._missing(segment, segment.end_before(first), what)

    def _state_damaged(self, segment: Segment) -> None:
        state = segment.header.state or 0 if segment.header else 0
        self._lost += state - len(segment.state)
        at = segment.damages[0][0] if segment.damages else segment.torn_at or 0
        self._missing(segment, at, f"{state - len(segment.state)} of {state} records of the state")

    def _missing(self, segment: Segment, position: int, what: str) -> None:
        message = f"{segment.location} is damaged at byte {position}: {what} cannot be read"
        if not self._skips_damage:
            raise WriteAheadLogError(
                f"{message}. Put the file back as it was, or go on without what is lost: {conf.key('on_damage')}=skip"
            )
        self._damages.append(message)

    def _read_numbers(self) -> list[int]:
        try:
            return segment_numbers(self._directory)
        except OSError as error:
            raise WriteAheadLogError(f"the journal in {self._directory.location()} cannot be read: {error}") from error

    def _read(self, number: int) -> Segment:
        try:
            return Segment.read(self._directory, number)
        except OSError as error:
            raise WriteAheadLogError(f"the journal in {self._directory.location()} cannot be read: {error}") from error


def _first(segment: Segment) -> int:
    return segment.header.first if segment.header else 1
