"""``WriteAheadLog``: what happened, written down before anybody is told that it did.

Owns the segments of one folder, and the thread that alone writes them: everything that waits is written in one go,
committed once, applied to the owner's state in that order, and acknowledged. There is no time limit: who appends waits,
so what waits is bounded by the number of those who append. Never holds a state of its own: the owner's fold is built by
the same events when it runs and when it is recovered, and each new segment begins with it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Protocol

from attrs import field, frozen

from penstock import conf
from penstock.conf import Settings
from penstock.errors import WriteAheadLogError, text_of
from penstock.journal.frames import MAX_PAYLOAD_BYTES
from penstock.journal.reader import History
from penstock.journal.segment import (
    Event,
    Header,
    encoded,
    event_record,
    segment_name,
    segment_numbers,
    state_record,
)
from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.runtime.threads import EngineThread
from penstock.storage.directory import Appender, Directory, Durability

log = get_logger("journal")

# So much of events, and no less than the state they follow, makes a new segment worth while.
_ROLL_BYTES = 16 << 20


class Fold(Protocol):
    """The state that events add up to. Called by one thread at a time: who recovers, then the journal's."""

    def apply(self, event: Event) -> None:
        """Take an event that is committed."""
        ...

    def events(self) -> list[Event]:
        """Events that make of an empty fold one like this."""
        ...


@frozen
class Recovered:
    """What a recovery found.

    Attributes:
        events: how many were applied, those of the state included.
        torn_bytes: of a last write that was not finished.
        damages: what is missing, in words.
        lost: how many records are known to be missing.
    """

    events: int
    torn_bytes: int = 0
    damages: tuple[str, ...] = ()
    lost: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing was cut off or left out."""
        return not self.torn_bytes and not self.damages


@frozen
class _Waiting:
    event: Event = field(repr=False)
    text: bytes = field(repr=False)
    outcome: Future[None]

    def settle(self, error: BaseException | None = None) -> None:
        # One who closes may have been faster.
        with suppress(InvalidStateError):
            if error is None:
                self.outcome.set_result(None)
            else:
                self.outcome.set_exception(error)


class WriteAheadLog:
    """Keep the events of a run.

    Call ``recover``, then ``start``; then ``append`` from any thread; then ``close``.

    Args:
        directory: of this journal alone.
        run: whose it is. Events of another run are not recovered, and are deleted by ``start``.
        settings: in force.
        clock: of the engine.
        known: how many events of the run somebody knows to have been committed.
        instead: is applied where some of these are missing at the end, and that is borne.
    """

    def __init__(
        self,
        directory: Directory,
        run: str,
        settings: Settings,
        clock: Clock,
        known: int = 0,
        instead: Event | None = None,
    ) -> None:
        self._directory, self._run, self._clock = directory, run, clock
        self._known, self._instead = known, instead
        self._skips_damage = settings.on_damage == "skip"
        self._durability = Durability(settings.durability)
        self._tries = settings.driver_wal_max_failures
        self._interval_ms = settings.driver_wal_rolling_interval_s * 1000
        self._closes = settings.driver_wal_close_after_write or not directory.can_append
        self._fold: Fold | None = None
        # Behind start all of these are the writer's.
        self._next_number = 1
        self._next_segment = 0
        self._appender: Appender | None = None
        self._is_unsure = False
        self._state_bytes = self._event_bytes = 0
        self._state_ms = -math.inf
        self._queue: list[_Waiting] = []
        self._at_hand: list[_Waiting] = []
        self._closed = False
        self._changed = threading.Condition()
        self._thread = EngineThread("WriteAheadLog", self._write_all)

    def recover(self, fold: Fold) -> Recovered:
        """Apply all that this run has done before to an empty fold, which becomes the journal's. Changes no file.

        Raises:
            WriteAheadLogError: a file cannot be read, or is damaged and damage is not skipped, or events that a
                checkpoint knows of are missing; nothing was applied then. Or the fold rejects an event.
        """
        history = History.read(self._directory, self._run, skips_damage=self._skips_damage)
        where = self._directory.location()
        if history.torn_bytes:
            log.warning("the journal's last write was not finished", directory=where, num_bytes=history.torn_bytes)
        for damage in history.damages:
            log.error("the journal is damaged, what is lost is skipped", damage=damage)
        last = history.next_number - 1
        missing = self._check_known(last)
        for event in [*history.events, *([self._instead] if missing and self._instead is not None else ())]:
            try:
                fold.apply(event)
            except (ValueError, TypeError, LookupError) as error:
                raise WriteAheadLogError(
                    f"the journal in {where} has an event that is not understood ({type(error).__name__}: "
                    f"{text_of(error)}); was it written by another version of Penstock?"
                ) from error
        # What is known of is never counted anew.
        self._next_number, self._fold = max(last, self._known) + 1, fold
        return Recovered(
            len(history.events),
            history.torn_bytes,
            (*history.damages, *missing),
            history.lost + max(self._known - last, 0),
        )

    def _check_known(self, last: int) -> tuple[str, ...]:
        """What is missing at the end, in words."""
        if last >= self._known:
            return ()
        where = self._directory.location()
        missing = f"the journal in {where} ends with event {last}, and a checkpoint knows of {self._known}"
        # Where nothing is promised that is no damage, and yet to be told.
        if not self._skips_damage and self._durability is not Durability.NONE:
            raise WriteAheadLogError(
                f"{missing}: the end of its files is damaged, or they are gone. Put them back as they were, or go on "
                f"without what is lost: {conf.key('on_damage')}=skip"
            )
        log.error("the journal's end is missing, what is lost is skipped", damage=missing, events=self._known - last)
        return (missing,)

    @property
    def last_number(self) -> int:
        """How many events of the run are committed."""
        return self._next_number - 1

    def start(self) -> None:
        """Begin a segment with the fold's state, delete all others, and take events from now on.

        Raises:
            WriteAheadLogError: the segment cannot be written; nothing was deleted.
        """
        assert self._fold is not None, "recover comes first"
        for left in range(self._tries - 1, -1, -1):
            try:
                # The first of all has the number 0: of any other it is known that one was before it.
                self._next_segment = max(segment_numbers(self._directory), default=-1) + 1
                self._begin_with_state()
                break
            except OSError as error:
                if not left:
                    raise self._not_written(error) from error
        self._thread.start()

    def append(self, event: Event) -> None:
        """Return once an event is committed and applied to the fold.

        Args:
            event: of text, numbers, lists and objects with text as keys, as JSON has them.

        Raises:
            WriteAheadLogError: it was not committed, or nobody knows; it was not applied. It may be appended again.
        """
        waiting = _Waiting(event, encoded(event), Future())
        if len(waiting.text) > MAX_PAYLOAD_BYTES - 32:
            raise WriteAheadLogError(f"an event of {len(waiting.text)} bytes is too large for the journal")
        with self._changed:
            if self._closed or not self._thread.ident:
                raise WriteAheadLogError(f"the journal is {'closed' if self._closed else 'not started'}")
            self._queue.append(waiting)
            self._changed.notify()
        waiting.outcome.result()

    def close(self, timeout_s: float = 10.0) -> None:
        """Take no more events, fail those that wait, let the write at hand end. Harmless when repeated.

        Args:
            timeout_s: the longest wait for that write; those who wait for it fail then.
        """
        with self._changed:
            was_closed, self._closed = self._closed, True
            waiting, self._queue = self._queue, []
            self._changed.notify_all()
        for each in waiting:
            each.settle(WriteAheadLogError("the journal was closed before this was written"))
        if was_closed or not self._thread.ident:
            return
        if not self._thread.finish(timeout_s):
            log.warning("the journal's last write does not end", directory=self._directory.location())
            for each in list(self._at_hand):
                each.settle(WriteAheadLogError("the journal was closed, and whether this was written is not known"))

    # -- on the writer's thread; _begin_with_state first on that of start --

    def _write_all(self) -> None:
        while group := self._take():
            try:
                self._write(group)
                if self._is_old():
                    self._roll()
            # The writer outlives whatever happens to a group.
            except BaseException as error:
                log.exception("the journal's writer failed")
                self._abandon()
                for each in group:
                    each.settle(WriteAheadLogError(f"the journal's writer failed: {text_of(error)}"))
        self._abandon()

    def _take(self) -> list[_Waiting]:
        """All that waits; nothing at the end."""
        with self._changed:
            self._at_hand = []
            self._changed.wait_for(lambda: self._queue or self._closed)
            self._at_hand, self._queue = self._queue, []
            return self._at_hand

    def _write(self, group: list[_Waiting]) -> None:
        data = b"".join(event_record(number, each.text) for number, each in enumerate(group, self._next_number))
        for left in range(self._tries - 1, -1, -1):
            try:
                self._commit(data)
                break
            except OSError as error:
                # Whether it is there nobody knows: the next segment says from which event on this one does not count.
                self._abandon()
                if not left:
                    failed = self._not_written(error)
                    log.error("events refused", count=len(group), reason=str(failed))
                    for each in group:
                        each.settle(failed)
                    return
        self._next_number += len(group)
        self._event_bytes += len(data)
        for each in group:
            self._apply(each)

    def _commit(self, data: bytes) -> None:
        if self._is_unsure:
            self._begin_with_state()
        if self._appender is None:
            self._appender = self._directory.append(self._take_name())
            data = Header(self._run, self._next_number).record() + data
        self._appender.write(data)
        self._appender.commit(self._durability)
        if self._closes:
            self._appender.close()
            self._appender = None

    def _apply(self, waiting: _Waiting) -> None:
        assert self._fold is not None
        try:
            self._fold.apply(waiting.event)
        except Exception as error:
            waiting.settle(error)
        else:
            waiting.settle()

    def _is_old(self) -> bool:
        age_ms = self._clock.monotonic_ms() - self._state_ms
        return age_ms >= self._interval_ms or self._event_bytes >= max(_ROLL_BYTES, self._state_bytes)

    def _roll(self) -> None:
        try:
            self._begin_with_state()
        except Exception as error:
            # Some of it may be there, and count: nothing may be appended to what is older.
            self._abandon()
            self._note_state(self._state_bytes)
            log.warning("the journal could not be begun anew, it grows", reason=text_of(error))

    def _begin_with_state(self) -> None:
        """Begin a segment that needs none before it, and delete those."""
        assert self._fold is not None
        events = self._fold.events()
        number, name = self._next_segment, self._take_name()
        appender = self._directory.append(name)
        try:
            num_bytes = 0
            for record in self._state_records(events):
                appender.write(record)
                num_bytes += len(record)
            # Whatever is promised for events: what is deleted now must be here.
            appender.commit(Durability.FLUSH if self._durability is Durability.NONE else self._durability)
            if self._closes:
                appender.close()
        except BaseException:
            _close(appender)
            raise
        self._abandon()
        self._appender = None if self._closes else appender
        self._is_unsure = False
        self._note_state(num_bytes)
        self._delete_before(number)

    def _state_records(self, events: list[Event]) -> Iterable[bytes]:
        yield Header(self._run, self._next_number, len(events)).record()
        for event in events:
            yield state_record(event)

    def _delete_before(self, number: int) -> None:
        # The oldest first: what is left is whole, or seen not to be.
        try:
            for old in segment_numbers(self._directory):
                if old < number:
                    self._directory.delete(segment_name(old))
        except OSError as error:
            log.warning("old files of the journal not deleted", reason=text_of(error))

    def _abandon(self) -> None:
        """End the segment at hand."""
        if self._appender is not None:
            _close(self._appender)
            self._appender = None
            # Then events that were acknowledged may be gone with it.
            self._is_unsure = self._durability is Durability.NONE

    def _note_state(self, num_bytes: int) -> None:
        self._state_bytes, self._event_bytes, self._state_ms = num_bytes, 0, self._clock.monotonic_ms()

    def _take_name(self) -> str:
        """A name that no segment had: also one that failed may be there."""
        self._next_segment += 1
        return segment_name(self._next_segment - 1)

    def _not_written(self, error: OSError) -> WriteAheadLogError:
        return WriteAheadLogError(
            f"the journal in {self._directory.location()} cannot be written, tries: {self._tries}: {text_of(error)}"
        )


def _close(appender: Appender) -> None:
    with suppress(OSError):
        appender.close()
