"""``WriteAheadLog``: events of a run, committed to disk before anybody acts on them.

A thread writes all pending events at once, commits them, applies them to the owner's state in that order, and then
acknowledges them. Appending has no timeout: appenders wait, so their number bounds the pending events. The same events
build the state in a running and in a recovered run, and every base segment begins with it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import accumulate
from typing import Protocol

from attrs import field, frozen

from penstock import conf
from penstock.conf import Settings
from penstock.errors import ClaimLostError, WriteAheadLogError, text_of
from penstock.journal.reader import Recovered, read_log
from penstock.journal.segment import (
    MAX_PAYLOAD_BYTES,
    STATE,
    Event,
    encoded,
    event_record,
    header_record,
    segment_name,
    segment_numbers,
)
from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff, retry
from penstock.runtime.threads import EngineThread
from penstock.storage.claim import FileNumber
from penstock.storage.directory import Appender, Directory, Durability

log = get_logger("write_ahead_log")

# A new base segment begins after this many bytes of events, or after as many bytes as the state has if that is more.
_ROLL_BYTES = 16 << 20
# Bytes of a record besides its events: the number and brackets.
_MAX_EVENT_BYTES = MAX_PAYLOAD_BYTES - 32


class LogState(Protocol):
    """The state that ``apply`` builds from committed events; ``events`` rebuild it from an empty one.

    The recovering thread calls it during the recovery, afterwards only the writer's thread.
    """

    def apply(self, event: Event) -> None: ...
    def events(self) -> list[Event]: ...


@frozen
class _Pending:
    event: Event = field(repr=False)
    text: bytes = field(repr=False)
    outcome: Future[None]

    def settle(self, error: BaseException | None = None) -> None:
        # ``close`` may have failed it meanwhile.
        with suppress(InvalidStateError):
            if error is None:
                self.outcome.set_result(None)
            else:
                self.outcome.set_exception(error)


class WriteAheadLog:
    """The log of one run. Call ``recover``, then ``start``; then ``append`` from any thread; then ``close``.

    Arguments as in ``read_log``; ``rebooted``: the last run may have ended with its host. Events of other runs are not
    recovered, and ``start`` deletes them.
    """

    def __init__(
        self,
        directory: Directory,
        run: str,
        settings: Settings,
        clock: Clock,
        checkpointed: int = 0,
        substitute: Event | None = None,
        *,
        rebooted: bool = False,
    ) -> None:
        self._directory = directory
        self._run = run
        self._clock = clock
        self._checkpointed = checkpointed
        self._substitute = substitute
        self._rebooted = rebooted
        self._skips_damage = settings.on_damage == "skip"
        self._durability = Durability(settings.durability)
        self._attempts = settings.driver_wal_max_failures
        self._interval_ms = settings.driver_wal_rolling_interval_s * 1000
        self._closes = not directory.can_append
        self._state: LogState | None = None
        # After ``start``, only the writer's thread uses these.
        self._next_number = 1
        self._next_segment = FileNumber(directory.claim_number, 0)
        self._appender: Appender | None = None
        self._needs_base = False
        self._state_bytes = 0
        self._event_bytes = 0
        self._base_ms = -math.inf
        # Guarded by the condition.
        self._changed = threading.Condition()
        self._queue: list[_Pending] = []
        self._in_write: list[_Pending] = []
        self._closed = False
        self._thread = EngineThread("WriteAheadLog", self._write_all)

    def recover(self, state: LogState) -> Recovered:
        """Apply all events of the run to an empty state, which becomes the log's; see ``read_log``."""
        recovered = read_log(
            self._directory,
            self._run,
            state.apply,
            self._checkpointed,
            self._substitute,
            skips_damage=self._skips_damage,
            # Without durability, a missing end is expected. What was flushed only, a power failure may have lost.
            skips_end=self._skips_damage
            or self._durability is Durability.NONE
            or (self._durability is Durability.FLUSH and self._rebooted),
        )
        if recovered.truncated_bytes:
            num_bytes = recovered.truncated_bytes
            log.warning("unfinished last write ignored", directory=self._directory.location(), num_bytes=num_bytes)
        for damage in recovered.damages:
            log.error("damaged records skipped", damage=damage)
        self._next_number = recovered.last_number + 1
        self._state = state
        return recovered

    @property
    def last_number(self) -> int:
        """The number of committed events of the run."""
        return self._next_number - 1

    @property
    def num_bytes(self) -> int:
        """The size of the segments that a recovery reads."""
        return self._state_bytes + self._event_bytes

    def start(self) -> None:
        """Begin a base segment, delete all other segments, and accept events. Deletes nothing if it fails."""
        assert self._state is not None, "recover comes first"

        def begin() -> None:
            # Only the very first segment has number 0, so a lone later segment shows that another is missing.
            last = max((segment.number for segment in segment_numbers(self._directory)), default=-1)
            self._next_segment = self._next_segment._replace(number=last + 1)
            self._begin_base()

        self._retried(begin)
        self._thread.start()

    def sync(self) -> None:
        """Return when the disk has every event committed so far; without effect on a remote directory. Any thread."""
        # A segment that is deleted meanwhile was replaced by a base, which is on the disk.
        if self._durability is not Durability.FSYNC:
            self._directory.sync()

    def append(self, event: Event) -> None:
        """Return once an event, a JSON object, is committed and applied to the state."""
        pending = _Pending(event, encoded(event), Future())
        if len(pending.text) > _MAX_EVENT_BYTES:
            raise WriteAheadLogError(
                f"an event of {len(pending.text)} bytes is too large for the write-ahead log, which takes "
                f"{MAX_PAYLOAD_BYTES}: store less metadata with a block"
            )
        with self._changed:
            if self._closed or not self._thread.ident:
                raise WriteAheadLogError(f"the write-ahead log is {'closed' if self._closed else 'not started'}")
            self._queue.append(pending)
            self._changed.notify()
        pending.outcome.result()

    def close(self, timeout_s: float = 10.0) -> None:
        """Reject further events, fail pending ones, and wait ``timeout_s`` for the write in progress. Idempotent."""
        with self._changed:
            was_closed = self._closed
            self._closed = True
            pending = self._queue
            self._queue = []
            self._changed.notify_all()
        name, advice = f"the write-ahead log in {self._directory.location()}", "its source must send the data again"
        for waiting in pending:
            waiting.settle(WriteAheadLogError(f"{name} was closed before this event was written: {advice}"))
        if was_closed or not self._thread.ident:
            return
        if not self._thread.finish(timeout_s):
            log.warning("last write not finished", directory=self._directory.location(), timeout_s=timeout_s)
            hung = f"{name} was closed, because its storage has not answered for {timeout_s:g} s"
            for unknown in list(self._in_write):
                unknown.settle(WriteAheadLogError(f"{hung}; whether it has this event is unknown: {advice}"))

    # -- on the writer's thread; ``_begin_base`` and ``_retried`` first on that of ``start`` --

    def _write_all(self) -> None:
        while group := self._take():
            try:
                self._write(group)
                self._roll_if_old()
            # The writer survives any error of one group.
            except BaseException as error:
                log.exception("write failed unexpectedly", directory=self._directory.location())
                self._close_segment()
                for pending in group:
                    pending.settle(WriteAheadLogError(f"the write-ahead log's writer failed: {text_of(error)}"))
        self._close_segment()

    def _take(self) -> list[_Pending]:
        """Wait for pending events and take all that fit into one record; none once the log is closed."""
        with self._changed:
            self._in_write = []
            self._changed.wait_for(lambda: self._queue or self._closed)
            sizes = accumulate(len(pending.text) + 1 for pending in self._queue)
            count = max(1, sum(size <= _MAX_EVENT_BYTES for size in sizes))
            self._in_write = self._queue[:count]
            self._queue = self._queue[count:]
            return self._in_write

    def _write(self, group: list[_Pending]) -> None:
        data = event_record(self._next_number, *(pending.text for pending in group))
        try:
            self._retried(lambda: self._commit(data))
        except WriteAheadLogError as error:
            log.error("events refused", count=len(group), reason=str(error))
            for pending in group:
                pending.settle(error)
            return
        self._next_number += len(group)
        self._event_bytes += len(data)
        assert self._state is not None
        for pending in group:
            try:
                self._state.apply(pending.event)
            except Exception as error:
                pending.settle(error)
            else:
                pending.settle()

    def _retried(self, write: Callable[[], None]) -> None:
        # The outcome of a failed write is unknown: the first number of the next segment shows which events count.
        try:
            retry(
                write,
                Backoff(first_ms=0, longest_ms=0),
                retries=self._attempts - 1,
                retry_if=lambda error: isinstance(error, OSError),
                on_retry=lambda _error, _delay_ms: self._close_segment(),
            )
        except OSError as error:
            self._close_segment()
            raise WriteAheadLogError(
                f"the write-ahead log in {self._directory.location()} could not be written "
                f"after {self._attempts} attempts: {text_of(error)}. Can the driver write there, and is its disk full? "
                f"{conf.key('driver_wal_max_failures')} sets the number of attempts"
            ) from error

    def _commit(self, data: bytes) -> None:
        if self._needs_base:
            self._begin_base()
        self._write_records(self._appender or self._begin_segment(), [data], self._durability)

    def _begin_segment(self, num_state: int | None = None) -> Appender:
        """Begin a segment with its header. On a local disk, nothing else is written before the disk has that."""
        # A new file name, because the file of a failed attempt may exist.
        number = self._next_segment
        self._next_segment = number._replace(number=number.number + 1)
        self._appender = self._directory.append(segment_name(number))
        self._appender.write(header_record(self._run, self._next_number, num_state))
        if not self._closes:
            self._appender.commit(Durability.FSYNC)
        return self._appender

    def _write_records(self, appender: Appender, records: Iterable[bytes], durability: Durability) -> int:
        """Write records to the current segment and commit them; return their size. An error leaves it open."""
        num_bytes = 0
        for record in records:
            appender.write(record)
            num_bytes += len(record)
        appender.commit(durability)
        if self._closes:
            appender.close()
            self._appender = None
        return num_bytes

    def _roll_if_old(self) -> None:
        age_ms = self._clock.monotonic_ms() - self._base_ms
        if age_ms < self._interval_ms and self._event_bytes < max(_ROLL_BYTES, self._state_bytes):
            return
        try:
            self._begin_base()
        except Exception as error:
            self._close_segment()
            self._note_base(self._state_bytes)
            directory = self._directory.location()
            log.warning("base segment not written, the log grows", directory=directory, reason=text_of(error))

    def _begin_base(self) -> None:
        """Begin a segment with the state, and delete all older segments once the disk has it."""
        assert self._state is not None
        events = self._state.events()
        # Nothing may be appended to an older segment, even if this one is written in part only.
        self._close_segment()
        number = self._next_segment
        records = (event_record(STATE, encoded(event)) for event in events)
        appender = self._begin_segment(len(events))
        # Whatever the durability: a power failure must not lose what the older segments contain.
        self._note_base(self._write_records(appender, records, Durability.FSYNC))
        self._needs_base = False
        # Oldest first: after an interruption the remaining segments are complete or visibly incomplete.
        try:
            for old in segment_numbers(self._directory):
                if old < number:
                    self._directory.delete(segment_name(old))
        except OSError as error:
            log.warning("old segments not deleted", directory=self._directory.location(), reason=text_of(error))

    def _close_segment(self) -> None:
        if self._appender is not None:
            # Nothing is acknowledged by it, so the claim does not matter.
            with suppress(OSError, ClaimLostError):
                self._appender.close()
            self._appender = None
            # Without durability, acknowledged events may be lost with the segment: only a base replaces them.
            self._needs_base = self._durability is Durability.NONE

    def _note_base(self, num_bytes: int) -> None:
        self._state_bytes = num_bytes
        self._event_bytes = 0
        self._base_ms = self._clock.monotonic_ms()
