"""``RecordIntake``: the way of records into blocks, in whatever form they are stored.

Owns the block generator, the cutting of long stores to what memory and the rate limit let pass, and the door that
closes when the receiver has stopped. Never starts or stops the receiver. ``store…`` run on the receiver's threads.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.blocks import arrow_form
from penstock.errors import ReceiverStoppedError, StoreError
from penstock.receive.block_generator import BlockGenerator, Bounds, OnStored
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.chunks import chunks
from penstock.receive.rate_limiter import RateLimiter
from penstock.runtime.clock import Clock

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.conf import Settings


class RecordIntake:
    """Take records, as long as the receiver runs.

    Args:
        clock: whose ticks cut blocks.
        settings: in force.
        limiter: holds every form of store.
        pusher: makes a table a block that the driver has accepted.
        report_error: tells the driver of what is left out.
        on_success: is called when a block was accepted.
        on_failure: is told when what was buffered could not be stored.
        on_tick: is called at each tick; must return at once.
    """

    def __init__(
        self,
        clock: Clock,
        settings: Settings,
        limiter: RateLimiter,
        pusher: BlockPusher,
        report_error: Callable[[str, BaseException | None], None],
        on_success: Callable[[], None],
        on_failure: Callable[[BaseException], None],
        on_tick: Callable[[], None],
    ) -> None:
        self._limiter, self._pusher = limiter, pusher
        self._max_records, self._max_bytes = settings.max_buffered_records, settings.max_buffered_bytes
        self._report_error, self._on_success = report_error, on_success
        self._generator = BlockGenerator(
            clock,
            settings.block_interval_ms,
            Bounds(self._max_records, self._max_bytes, settings.block_queue_size),
            push=self._push_buffered,
            on_failure=on_failure,
            on_tick=on_tick,
            on_callback_error=lambda error: report_error("on_stored failed", error),
        )
        self._accepting = True
        self._in_flight = 0
        self._idle = threading.Condition()
        self.stored_records = 0

    @property
    def flushed_records(self) -> int:
        """How many were stored singly, and pushed after the stop began."""
        return self._generator.flushed_records

    @property
    def dropped_records(self) -> int:
        """How many were stored singly, and are lost because pushing failed."""
        return self._generator.dropped_records

    def start(self) -> None:
        """Begin to cut blocks."""
        self._generator.start()

    def stop(self) -> None:
        """Push what is buffered, wait for the stores at hand, take nothing more. Harmless when repeated."""
        self._generator.stop()
        with self._idle:
            self._accepting = False
            # Stores on other threads have passed the limiter: they end with their answer from the driver.
            self._idle.wait_for(lambda: self._in_flight == 0)

    def store(self, record: Any, on_stored: OnStored | None) -> None:
        """Buffer one record."""
        self._limiter.acquire(1)
        self._generator.add(record, on_stored)

    def store_all(self, records: Iterable[Any], metadata: dict[str, Any] | None) -> None:
        """Store records and have them accepted."""
        _check_json(metadata)
        for table, count in chunks(records, self._chunk_records, self._max_bytes):
            part, values = table, list[Any]()
            for start, stop in self._permits(count):
                if stop - start < count:
                    # The limit has sunk since the chunk was made. A row may be a run of records.
                    values = values or list(arrow_form.records(table.to_batches()))
                    part = arrow_form.encode(values[start:stop])
                self._push_now(part, stop - start, metadata)
            # Not beside the next one in memory.
            del table, part, values

    def store_arrow(self, batch: pa.RecordBatch | pa.Table, metadata: dict[str, Any] | None) -> None:
        """Store a columnar batch and have it accepted."""
        _check_json(metadata)
        table = arrow_form.from_columns(batch)
        for start, stop in self._permits(table.num_rows):
            self._push_now(table.slice(start, stop - start), stop - start, metadata)

    def _chunk_records(self) -> int:
        """How many records are worth taking at once: what waits for the rate limit need not wait in memory."""
        burst = self._limiter.burst
        return self._max_records if burst is None else min(burst, self._max_records)

    def _permits(self, count: int) -> Iterator[tuple[int, int]]:
        start = 0
        while start < count:
            stop = start + self._limiter.acquire(count - start)
            yield start, stop
            start = stop

    def _push_buffered(self, records: list[Any]) -> Mapping[int, BaseException]:
        """Push what was stored singly. A record that cannot be encoded is told of and left out, alone.

        Returns:
            The error of each record that was left out, by its position.
        """
        left_out: dict[int, BaseException] = {}
        try:
            table = arrow_form.encode(records)
        except Exception as error:
            left_out = {number: error for number, record in enumerate(records) if not arrow_form.is_storable(record)}
            records = [record for number, record in enumerate(records) if number not in left_out]
            self._report_error(f"{len(left_out)} records cannot be pickled: they are left out", error)
            if not records:
                return left_out
            table = arrow_form.encode(records)
        self._push(table, len(records), None)
        return left_out

    def _push_now(self, table: pa.Table, count: int, metadata: dict[str, Any] | None) -> None:
        """Push on the receiver's own thread, as long as the door is open."""
        with self._idle:
            if not self._accepting:
                raise ReceiverStoppedError("the receiver is not running: the records were not stored")
            self._in_flight += 1
        try:
            self._push(table, count, metadata)
        finally:
            with self._idle:
                self._in_flight -= 1
                self._idle.notify_all()

    def _push(self, table: pa.Table, count: int, metadata: dict[str, Any] | None) -> None:
        self._pusher.push(table, count, metadata)
        with self._idle:
            self.stored_records += count
        self._on_success()


def _check_json(metadata: dict[str, Any] | None) -> None:
    try:
        json.dumps(metadata)
    except (TypeError, ValueError) as error:
        raise StoreError(f"the metadata is not JSON: {error}; nothing was stored") from None
