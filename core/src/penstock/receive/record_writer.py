"""``RecordWriter``: every form of ``store``.

A single record passes the rate limiter and goes to the block generator. Records of ``store_all`` and ``store_arrow``
become blocks that memory and rate limit allow, which the pusher stores at once. Runs on the receiver's threads.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.blocks import arrow_form
from penstock.errors import ReceiverStoppedError, StoreError
from penstock.receive.block_generator import BlockGenerator, OnStored
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.sized_tables import sized_tables
from penstock.runtime.clock import Clock

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.conf import Settings


class RecordWriter:
    """Write records while the generator accepts them.

    Args:
        settings: has the bounds of a block.
        limiter: holds every form of store.
        generator: buffers single records.
        pusher: pushes blocks.
        clock: tells when records arrive.
    """

    def __init__(
        self, settings: Settings, limiter: RateLimiter, generator: BlockGenerator, pusher: BlockPusher, clock: Clock
    ) -> None:
        self._max_records = settings.max_buffered_records
        self._max_bytes = settings.max_buffered_bytes
        self._limiter = limiter
        self._generator = generator
        self._pusher = pusher
        self._clock = clock
        # The number of blocks that are pushed now.
        self._in_progress = 0
        self._idle = threading.Condition()

    def store(self, record: Any, on_stored: OnStored | None) -> None:
        """Buffer one record."""
        self._limiter.acquire(1)
        self._generator.add_data(record, on_stored)

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
                self._push(part, stop - start, metadata if is_last and stop == count else None, arrival_ms)
            # Free it before the next table is made.
            del table, part, values
            arrival_ms = self._clock.now_ms()

    def store_arrow(self, batch: pa.RecordBatch | pa.Table, metadata: dict[str, Any] | None) -> None:
        """Store a columnar batch and return when it is accepted."""
        _check_json(metadata)
        table, arrival_ms = arrow_form.from_columns(batch), self._clock.now_ms()
        for start, stop in self._permits(table.num_rows):
            last = stop == table.num_rows
            self._push(table.slice(start, stop - start), stop - start, metadata if last else None, arrival_ms)

    def await_idle(self) -> None:
        """Wait until the blocks are accepted or lost that receivers' threads push; they have passed the limiter."""
        with self._idle:
            self._idle.wait_for(lambda: self._in_progress == 0)

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

    def _push(self, table: pa.Table, count: int, metadata: dict[str, Any] | None, arrival_ms: int) -> None:
        with self._idle:
            if not self._generator.accepts_data:
                raise ReceiverStoppedError("the receiver is not running: the records were not stored")
            self._in_progress += 1
        try:
            self._pusher.push_table(table, count, metadata, arrival_ms).await_accepted()
        finally:
            with self._idle:
                self._in_progress -= 1
                self._idle.notify_all()


def _check_json(metadata: dict[str, Any] | None) -> None:
    try:
        json.dumps(metadata)
    except (TypeError, ValueError) as error:
        raise StoreError(f"the metadata is not JSON: {error}; nothing was stored") from None
