"""``BlockGenerator``: buffers single records and cuts them into blocks.

Owns the buffer, which is cut every block interval, and the queues of cut and of stored blocks. Records and bytes that
are not accepted yet are bounded: at the bound ``add`` waits. A record is dropped only after a store or a report has
failed for good, which stops the receiver. ``add`` runs on the receiver's threads, cutting on the timer's, storing and
reporting on a thread each: blocks that are stored during a report are reported together after it.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from attrs import define, field, frozen

from penstock.errors import ReceiverStoppedError
from penstock.runtime.clock import Clock
from penstock.runtime.recurring_timer import RecurringTimer
from penstock.runtime.threads import EngineThread

T = TypeVar("T")


@frozen
class Bounds:
    """The most that waits to be accepted.

    Attributes:
        records: number of records.
        num_bytes: their size as ``sys.getsizeof`` counts it; a single record may exceed it.
        blocks: number of cut blocks, and of stored ones.
    """

    records: int
    num_bytes: int
    blocks: int


#: Called with ``None`` when a record is stored and accepted, with the error when it is lost.
OnStored = Callable[[BaseException | None], object]
#: The errors of records that were left out of a block, by position.
LeftOut = Mapping[int, BaseException]


@define
class _Run:
    records: list[Any]
    # When the first record was added, ms since the epoch.
    arrival_ms: int = 0
    num_bytes: int = 0
    # Callbacks with the positions of their records.
    callbacks: list[tuple[int, OnStored]] = field(factory=list)
    # What ``store`` returned for it, or the error after which it is not stored.
    stored: tuple[Any, LeftOut] | None = None
    failure: BaseException | None = None
    # Whether its records are accepted or dropped, and its callbacks called.
    done: bool = False


class BlockGenerator:
    """Buffers records, cuts them into blocks, stores and reports the blocks.

    Args:
        clock: drives the timer that cuts.
        interval_ms: time between two cuts.
        bounds: at which ``add`` waits.
        store: stores records, the earliest of which was added at a time, as a block. Returns what ``report`` gets, and
            the records that were left out. An error that it raises is final.
        report: reports stored blocks, in order, and returns when they are accepted. An error that it raises is final.
        on_failure: called with the first of these errors; records buffered from then on are dropped.
        on_tick: called at each tick before the cut; must return at once.
        on_callback_error: called with what an ``on_stored`` raised.
        hold: entered by a caller of ``add`` while it waits.
    """

    def __init__(
        self,
        clock: Clock,
        interval_ms: int,
        bounds: Bounds,
        store: Callable[[list[Any], int], tuple[Any, LeftOut]],
        report: Callable[[list[Any]], object],
        on_failure: Callable[[BaseException], None],
        on_tick: Callable[[], None] = lambda: None,
        on_callback_error: Callable[[BaseException], None] = lambda _error: None,
        hold: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._clock, self._bounds = clock, bounds
        self._store, self._report, self._on_failure = store, report, on_failure
        self._before_cut, self._on_callback_error, self._hold = on_tick, on_callback_error, hold
        self._buffer = _Run([])
        # The last run that was cut; runs are done in the order of their cuts.
        self._last_cut = _Run([], done=True)
        self._pending_records = self._pending_bytes = 0
        self._room = threading.Condition()
        # Held from taking the buffer to queueing it, so that blocks keep their order.
        self._cutting = threading.Lock()
        # None ends the thread that takes from a queue.
        self._cut_runs: queue.Queue[_Run | None] = queue.Queue(bounds.blocks)
        self._stored_runs: queue.Queue[_Run | None] = queue.Queue(bounds.blocks)
        self._timer = RecurringTimer(clock, interval_ms, lambda _tick: self._on_tick(), "BlockGenerator", on_failure)
        self._threads = [
            EngineThread("BlockGenerator storing", self._store_runs),
            EngineThread("BlockGenerator reporting", self._report_runs),
        ]
        self._active, self._refuses = False, False
        self._failure: BaseException | None = None
        #: Number of records that are lost, and of those accepted after the stop began.
        self.dropped_records = self.flushed_records = 0

    @property
    def pending_bytes(self) -> int:
        """The size of the records that are not accepted yet, as ``Bounds`` counts it."""
        return self._pending_bytes

    def start(self) -> None:
        """Start to accept and cut records."""
        self._active = True
        self._timer.start(self._timer.start_time_ms())
        for thread in self._threads:
            thread.start()

    def add(self, record: Any, on_stored: OnStored | None = None) -> None:
        """Buffer one record; wait while the bounds are reached.

        Args:
            record: any object.
            on_stored: called once on the reporting thread, when the record is accepted or lost.

        Raises:
            ReceiverStoppedError: the generator is not running; the record was not buffered.
        """
        num_bytes = sys.getsizeof(record)
        with self._room:
            if self._pending_records and self._is_full(num_bytes):
                with self._hold():
                    while self._active and not self._refuses and self._pending_records and self._is_full(num_bytes):
                        self._cut_at_bound()
                        self._room.wait()
            if not self._active or self._refuses:
                raise ReceiverStoppedError("the receiver is not running: the record was not stored")
            if on_stored is not None:
                self._buffer.callbacks.append((len(self._buffer.records), on_stored))
            if not self._buffer.records:
                self._buffer.arrival_ms = self._clock.now_ms()
            self._buffer.records.append(record)
            self._buffer.num_bytes += num_bytes
            self._pending_records += 1
            self._pending_bytes += num_bytes

    def refuse(self, refuses: bool) -> None:
        """Refuse new records for the time being, or accept them again."""
        with self._room:
            self._refuses = refuses
            self._room.notify_all()

    def flush(self) -> None:
        """Store and report what is buffered; return when its callbacks were called. More may be added."""
        self._cut()
        with self._room:
            last = self._last_cut
            self._room.wait_for(lambda: last.done)

    def stop(self) -> None:
        """Refuse new records, store and report the buffered ones, return when that is done. Idempotent."""
        with self._room:
            if not self._active:
                return
            self._active = False
            self._room.notify_all()
        self._timer.stop(interrupt=True)
        self._cut()
        self._cut_runs.put(None)
        for thread in self._threads:
            thread.finish()

    def _is_full(self, num_bytes: int) -> bool:
        return self._pending_records >= self._bounds.records or self._pending_bytes + num_bytes > self._bounds.num_bytes

    def _on_tick(self) -> None:
        self._before_cut()
        self._cut()

    def _cut(self) -> None:
        with self._cutting:
            with self._room:
                run = self._take_buffer()
            if run is not None:
                self._cut_runs.put(run)

    def _cut_at_bound(self) -> None:
        """Cut before the tick if the storing thread is idle. Never waits, since the caller holds the lock."""
        if self._cut_runs.empty() and self._cutting.acquire(blocking=False):
            try:
                run = self._take_buffer()
                if run is not None:
                    self._cut_runs.put_nowait(run)
            finally:
                self._cutting.release()

    def _take_buffer(self) -> _Run | None:
        if not self._buffer.records:
            return None
        self._last_cut, self._buffer = self._buffer, _Run([])
        return self._last_cut

    def _store_runs(self) -> None:
        failure: BaseException | None = None
        while (run := self._cut_runs.get()) is not None:
            failure = failure or self._failure
            if failure is None:
                try:
                    run.stored = self._store(run.records, run.arrival_ms)
                except (Exception, SystemExit) as error:
                    failure = error
            run.failure = failure
            self._stored_runs.put(run)
        self._stored_runs.put(None)

    def _report_runs(self) -> None:
        while runs := take_waiting(self._stored_runs):
            try:
                self._report_together(runs)
            finally:
                with self._room:
                    for run in runs:
                        self._pending_records -= len(run.records)
                        self._pending_bytes -= run.num_bytes
                        # Freed here: the last run stays in ``_last_cut``.
                        run.done, run.records, run.callbacks = True, [], []
                    self._room.notify_all()

    def _report_together(self, runs: list[_Run]) -> None:
        stored = [run.stored[0] for run in runs if run.stored is not None]
        if stored and self._failure is None:
            try:
                self._report(stored)
            except (Exception, SystemExit) as error:
                self._fail(error)
        for run in runs:
            if run.failure is not None and self._failure is None:
                self._fail(run.failure)
            self._complete(run)

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._on_failure(error)

    def _complete(self, run: _Run) -> None:
        left_out = {} if run.stored is None else run.stored[1]
        if self._failure is not None:
            self.dropped_records += len(run.records)
        elif not self._active:
            self.flushed_records += len(run.records) - len(left_out)
        for position, on_stored in run.callbacks:
            try:
                on_stored(self._failure or left_out.get(position))
            # The callback is the receiver's code.
            except (Exception, SystemExit) as error:
                self._on_callback_error(error)


def take_waiting(items: queue.Queue[T | None]) -> list[T]:
    """Take everything that waits in a queue: at least one item; none after ``None``, which ends the queue.

    Called for each report, it groups what was queued during the report before.
    """
    taken: list[T] = []
    while (item := items.get()) is not None:
        taken.append(item)
        if items.empty():
            return taken
    if taken:
        # For the next call. Nothing is put after it, and it has just left the queue.
        items.put(None)
    return taken
