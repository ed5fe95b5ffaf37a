"""``read_log``: reads the committed events of a write-ahead log and detects missing ones. Changes no file.

The result is correct for these reasons:

1. A segment begins either with the complete state (then it is a *base*) or with the number of its first event.
2. Nothing is appended to a segment after a newer one was begun.
3. An event is acknowledged only after it is committed, and so is the base of its segment, or every event before it.
4. Header and state of a segment are on the disk before anything follows, and before any older segment is deleted.
5. Events that are committed together are one record: after an interrupted commit, all of them are sound or none.

Therefore the newest complete base, the events after it in its segment and the events of newer segments contain
everything that was acknowledged. If the outcome of a write was unknown, its events were written again to a newer
segment: that segment's first number shows which events of the older one do not count. The events that count have
consecutive numbers. A gap means that something is missing.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve, frozen

from penstock import conf
from penstock.errors import WriteAheadLogError, summary_of
from penstock.journal.segment import Event, NumberedEvent, Segment, segment_numbers
from penstock.storage.claim import FileNumber
from penstock.storage.directory import Directory

_REMEDY = f"Restore the file, or continue without the lost records: {conf.key('on_damage')}=skip"


@frozen
class Recovered:
    """The condition of a log: the number of its last event, one message per skipped damage, and the lost records.

    ``truncated_bytes`` follow the last sound record of the last segment: the driver died during a write.
    """

    last_number: int
    truncated_bytes: int = 0
    damages: tuple[str, ...] = ()
    lost: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing was truncated or missing."""
        return not self.truncated_bytes and not self.damages


def read_log(
    directory: Directory,
    run: str,
    apply: Callable[[Event], object],
    checkpointed: int = 0,
    substitute: Event | None = None,
    *,
    skips_damage: bool,
    skips_end: bool,
) -> Recovered:
    """Apply the events of a run's log, in order: those of the newest complete state, and those after it.

    Segments of other runs are ignored. ``checkpointed`` is the number of the run's events that a checkpoint counted as
    committed, and ``substitute`` is applied if some of these are missing at the end and that is skipped.
    ``skips_damage`` reports damage instead of refusing the log; ``skips_end`` does so for missing events after the
    newest state, of which a power failure may lose any that were not synced, and keep younger ones. Raises
    ``WriteAheadLogError`` if a file cannot be read, is damaged or of another version, or the end is missing.
    """
    where = directory.location()
    try:
        events, recovered = _Reader(directory, run, skips_damage=skips_damage, skips_end=skips_end).read()
    except OSError as error:
        raise WriteAheadLogError(f"the write-ahead log in {where} cannot be read: {error}") from error
    last = recovered.last_number
    if last < checkpointed:
        missing = f"the write-ahead log in {where} ends with event {last}, and a checkpoint knows of {checkpointed}"
        if not skips_end:
            raise WriteAheadLogError(f"{missing}: its files are damaged or gone. {_REMEDY}")
        lost = recovered.lost + checkpointed - last
        # A number that a checkpoint counted is never used again.
        recovered = evolve(recovered, last_number=checkpointed, damages=(*recovered.damages, missing), lost=lost)
        if substitute is not None:
            events.append(substitute)
    try:
        for event in events:
            apply(event)
    except (ValueError, TypeError, LookupError) as error:
        raise WriteAheadLogError(
            f"the write-ahead log in {where} has an event that cannot be applied ({summary_of(error)}). If another "
            "version of Penstock wrote it, run that version"
        ) from error
    return recovered


class _Reader:
    """Reads the segments of one run, once."""

    def __init__(self, directory: Directory, run: str, *, skips_damage: bool, skips_end: bool) -> None:
        self._directory = directory
        self._run = run
        self._skips_damage = skips_damage
        self._skips_events = skips_damage or skips_end
        # Segments, newest first, without any acknowledged event: the driver died when it began them.
        self._unfinished: list[Segment] = []
        self._damages: list[str] = []
        self._lost = 0

    def read(self) -> tuple[list[Event], Recovered]:
        base, following = self._segments()
        chain = [base, *following] if base else following
        if not chain:
            return [], Recovered(0, damages=tuple(self._damages))
        numbered = self._numbered(chain)
        events = [*(base.state if base else ()), *(record.event for record in numbered)]
        last = chain[-1]
        last_number = max(last.first - 1, numbered[-1].number if numbered else 0)
        return events, Recovered(last_number, last.truncated_bytes, tuple(self._damages), self._lost)

    def _segments(self) -> tuple[Segment | None, list[Segment]]:
        """The newest base, and the segments after it, oldest first."""
        numbers = segment_numbers(self._directory)
        following: list[Segment] = []
        for number in reversed(numbers):
            segment = Segment.read(self._directory, number)
            if segment.run is None:
                # The driver died while it began a segment that has no record.
                if not segment.state and not segment.events:
                    self._unfinished.append(segment)
                else:
                    self._missing(segment, 0, "its header, without which nothing in it counts,")
            elif segment.run != self._run:
                continue
            elif segment.num_state is None:
                following.insert(0, segment)
            elif segment.num_state == len(segment.state):
                return segment, following
            elif segment.events:
                # Events are written only after a complete state.
                self._state_damaged(segment)
                return segment, following
            else:
                self._unfinished.append(segment)
        return self._without_base(numbers, following)

    def _without_base(
        self, numbers: list[FileNumber], following: list[Segment]
    ) -> tuple[Segment | None, list[Segment]]:
        """Handle a log without a complete base, sound only if the driver died as it began the first segment."""
        bases = [segment for segment in self._unfinished if segment.run is not None]
        # Before the first event the state is empty.
        if bases and (following or bases[0].first > 1):
            self._state_damaged(bases[0])
            return bases[0], [segment for segment in following if segment.number > bases[0].number]
        if following:
            self._missing(following[0], 0, f"the state before event {following[0].first}")
        elif numbers and numbers[0].number > 0 and len(self._unfinished) == len(numbers):
            self._missing(self._unfinished[-1], 0, "all of it")
        return None, following

    def _numbered(self, chain: list[Segment]) -> list[NumberedEvent]:
        """The events that count: a segment's first number overrides older segments from that number onwards."""
        events: list[NumberedEvent] = []
        expected, previous = chain[0].first, chain[0]
        for segment in chain:
            while events and events[-1].number >= segment.first:
                events.pop()
            if segment.first > expected:
                between = (blank for blank in self._unfinished if previous.number < blank.number < segment.number)
                self._events_missing(next(between, previous), expected, segment.first)
            expected, previous = segment.first, segment
            for event in segment.events:
                if event.number > expected:
                    self._events_missing(segment, expected, event.number)
                if event.number >= expected:
                    events.append(event)
                    expected = event.number + 1
        return events

    def _events_missing(self, segment: Segment, first: int, end: int) -> None:
        self._lost += end - first
        what = f"event {first}" if end == first + 1 else f"events {first} to {end - 1}"
        self._missing(segment, segment.end_before(first), what, skips=self._skips_events)

    def _state_damaged(self, segment: Segment) -> None:
        of = segment.num_state or 0
        lost = of - len(segment.state)
        self._lost += lost
        self._missing(segment, segment.damaged_at, f"{lost} of {of} records of the state")

    def _missing(self, segment: Segment, position: int, what: str, *, skips: bool = False) -> None:
        message = f"{segment.location} is damaged at byte {position}: {what} cannot be read"
        if not (skips or self._skips_damage):
            raise WriteAheadLogError(f"{message}. {_REMEDY}")
        self._damages.append(message)
