"""``RecordWriter``: turns what a receiver stores, in any form, into pushed blocks.

Owns the block generator and the splitting of large stores into blocks that memory and rate limit allow. Never starts
or stops the receiver. ``store…`` run on the receiver's threads.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from attrs import frozen

from penstock.blocks import arrow_form
from penstock.errors import ReceiverStoppedError, StoreError
from penstock.receive.block_generator import BlockGenerator, Bounds, LeftOut, OnStored
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.sized_tables import sized_tables
from penstock.runtime.clock import Clock

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.blocks.block import StoredBlock
    from penstock.conf import Settings


@frozen
class WriterCallbacks:
    """What a writer reports, on whatever thread it happens; none may block.

    Attributes:
        report_error: an error after which the writer continues.
        on_accepted: a block was accepted.
        on_failure: buffered records could not be stored; those that follow are dropped.
        on_tick: called each block interval.
    """

    report_error: Callable[[str, BaseException | None], None]
    on_accepted: Callable[[], None]
    on_failure: Callable[[BaseException], None]
    on_tick: Callable[[], None]


class RecordWriter:
    """Write records until stopped.

    Args:
        clock: drives the timer that cuts blocks.
        settings: has block interval and bounds.
        limiter: holds every form of store.
        pusher: pushes blocks.
        callbacks: called on events of the writer.
        hold: entered by a thread while a full buffer holds its store.
    """

    def __init__(
        self,
        clock: Clock,
        settings: Settings,
        limiter: RateLimiter,
        pusher: BlockPusher,
        callbacks: WriterCallbacks,
        hold: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._clock, self._limiter, self._pusher, self._callbacks = clock, limiter, pusher, callbacks
        self._max_records, self._max_bytes = settings.max_buffered_records, settings.max_buffered_bytes
        self._generator = BlockGenerator(
            clock,
            settings.block_interval_ms,
            Bounds(self._max_records, self._max_bytes, settings.block_queue_size),
            store=self._store_buffered,
            report=self._report_buffered,
            on_failure=callbacks.on_failure,
            on_tick=callbacks.on_tick,
            on_callback_error=lambda error: callbacks.report_error("on_stored failed", error),
            hold=hold,
        )
        pusher.buffered_bytes = lambda: self._generator.pending_bytes
        self._accepting, self._refuses = True, False
        self._in_progress = 0
        self._idle = threading.Condition()
        #: The number of records that were stored and accepted.
        self.stored_records = 0

    def start(self) -> None:
        """Start to cut blocks."""
        self._generator.start()

    def stop(self) -> tuple[int, int]:
        """Push what is buffered, wait for stores in progress, refuse new ones. Idempotent.

        Returns:
            The number of records that were pushed since the stop began, and of those that are lost.
        """
        self._generator.stop()
        with self._idle:
            self._accepting = False
            # Stores on other threads that have passed the limiter end with an answer from the driver.
            self._idle.wait_for(lambda: self._in_progress == 0)
        return self._generator.flushed_records, self._generator.dropped_records

    def refuse(self, refuses: bool) -> None:
        """Refuse every store for the time being, or accept them again."""
        with self._idle:
            self._refuses = refuses
        self._generator.refuse(refuses)

    def flush(self) -> None:
        """Push what is buffered and return when its ``on_stored`` were called; stores are still accepted."""
        self._generator.flush()

    def store(self, record: Any, on_stored: OnStored | None) -> None:
        """Buffer one record."""
        self._limiter.acquire(1)
        self._generator.add(record, on_stored)

    def store_all(self, records: Iterable[Any], metadata: dict[str, Any] | None) -> None:
        """Store records and return when they are accepted."""
        _check_json(metadata)
        marks_last, arrival_ms = metadata is not None, self._clock.now_ms()
        for table, count, is_last in sized_tables(records, self._table_records, self._max_bytes, marks_last=marks_last):
            part, values = table, list[Any]()
            for start, stop in self._permits(count):
                if stop - start < count:
                    # The limit fell after the table was made. A row may hold several pickled records.
                    values = values or list(arrow_form.records(table.to_batches()))
                    part = arrow_form.encode(values[start:stop])
                self._push_now(part, stop - start, metadata if is_last and stop == count else None, arrival_ms)
            # Free it before the next table is made.
            del table, part, values
            arrival_ms = self._clock.now_ms()

    def store_arrow(self, batch: pa.RecordBatch | pa.Table, metadata: dict[str, Any] | None) -> None:
        """Store a columnar batch and return when it is accepted."""
        _check_json(metadata)
        table, arrival_ms = arrow_form.from_columns(batch), self._clock.now_ms()
        for start, stop in self._permits(table.num_rows):
            last = stop == table.num_rows
            self._push_now(table.slice(start, stop - start), stop - start, metadata if last else None, arrival_ms)

    def _table_records(self) -> int:
        """The most records to encode at once: more than a burst would only wait in memory for the rate limit."""
        burst = self._limiter.burst
        return self._max_records if burst is None else min(burst, self._max_records)

    def _permits(self, count: int) -> Iterator[tuple[int, int]]:
        start = 0
        while start < count:
            stop = start + self._limiter.acquire(count - start)
            yield start, stop
            start = stop

    def _store_buffered(self, records: list[Any], arrival_ms: int) -> tuple[StoredBlock | None, LeftOut]:
        """Store buffered records without those that cannot be pickled, which are reported.

        Returns:
            The stored block, ``None`` if no record is left; and the error of each record that was left out.
        """
        left_out: dict[int, BaseException] = {}
        try:
            table = arrow_form.encode(records)
        except Exception as error:
            left_out = {number: error for number, record in enumerate(records) if not arrow_form.is_storable(record)}
            first = records[next(iter(left_out), 0)]
            records = [record for number, record in enumerate(records) if number not in left_out]
            count, kind = len(left_out), type(first).__name__
            what = f"{count} record{'s' * (count != 1)} left out, because pickle fails; the first is of type {kind}"
            self._callbacks.report_error(what, error)
            if not records:
                return None, left_out
            table = arrow_form.encode(records)
        return self._pusher.store(table, len(records), None, arrival_ms), left_out

    def _report_buffered(self, blocks: list[StoredBlock | None]) -> None:
        stored = [block for block in blocks if block is not None]
        if stored:
            self._pusher.report(stored)
            self._note_accepted(sum(block.num_records for block in stored))

    def _push_now(self, table: pa.Table, count: int, metadata: dict[str, Any] | None, arrival_ms: int) -> None:
        """Push on the receiver's own thread."""
        with self._idle:
            if not self._accepting or self._refuses:
                raise ReceiverStoppedError("the receiver is not running: the records were not stored")
            self._in_progress += 1
        try:
            self._pusher.report([self._pusher.store(table, count, metadata, arrival_ms)])
            self._note_accepted(count)
        finally:
            with self._idle:
                self._in_progress -= 1
                self._idle.notify_all()

    def _note_accepted(self, count: int) -> None:
        with self._idle:
            self.stored_records += count
        self._callbacks.on_accepted()


def _check_json(metadata: dict[str, Any] | None) -> None:
    try:
        json.dumps(metadata)
    except (TypeError, ValueError) as error:
        raise StoreError(f"the metadata is not JSON: {error}; nothing was stored") from None
