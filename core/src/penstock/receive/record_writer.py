"""``RecordWriter``: every form of ``store``, on the receiver's threads.

A single record goes to the block generator; records of ``store_all`` and ``store_arrow`` become blocks that memory and
rate limit allow, which the pusher stores at once.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.blocks import arrow_form
from penstock.blocks.arrow_form import Column
from penstock.errors import ReceiverStoppedError, StoreError
from penstock.receive.block_generator import BlockGenerator, OnStored
from penstock.receive.block_pusher import BlockPusher
from penstock.receive.rate_limiter import RateLimiter
from penstock.runtime.clock import Clock

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.conf import Settings

# The most records encoded together.
_PIECE = 4096
# A table of large records consists of at least this many pieces: a piece is in memory twice while it is encoded.
_PIECES = 8
# A piece may have this many times the records of the one before, so that the first ones are small.
_GROWTH = 4
# An iterator may create its records as they are read. So a piece of it ends early if the last of each _LOOK records is
# _LARGER times as large as those before. A sequence is in memory already.
_LOOK, _LARGER = 256, 8


class RecordWriter:
    """Writes records while the generator accepts them."""

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


def sized_tables(
    records: Iterable[Any], max_records: Callable[[], int], max_bytes: int, *, marks_last: bool = False
) -> Iterator[tuple[pa.Table, int, bool]]:
    """Encode an iterable as tables of bounded size, with the number of records, and whether the table is the last.

    ``max_records`` is called before each table. A single record may exceed ``max_bytes``; records of very different
    sizes may exceed it by those taken between two checks. Only ``marks_last`` reads one record ahead, to know the last.
    """
    rest = source = iter(records)
    piece_records, record_bytes = 1, max_bytes
    columns: list[Column] = []
    count, num_bytes, most = 0, 0, max_records()
    look = _PIECE if isinstance(records, Sequence) else _LOOK
    while piece := _take(source, min(piece_records, most - count), look, record_bytes):
        columns = _with(columns, piece)
        added = columns[-1].values.nbytes - (num_bytes if len(columns) == 1 else 0)
        count, num_bytes = count + len(piece), num_bytes + added
        record_bytes = max(added // len(piece), 1)
        if count >= most or num_bytes + record_bytes > max_bytes:
            following = list(itertools.islice(source, 1)) if marks_last else []
            yield arrow_form.table(columns), count, marks_last and not following
            source = itertools.chain(following, rest)
            columns, count, num_bytes, most = [], 0, 0, max_records()
        left_bytes = min(max_bytes - num_bytes, max_bytes // _PIECES)
        piece_records = max(min(piece_records * _GROWTH, _PIECE, left_bytes // record_bytes), 1)
    if columns:
        yield arrow_form.table(columns), count, marks_last


def _take(source: Iterator[Any], count: int, look: int, record_bytes: int) -> list[Any]:
    """Take records; fewer if they are suddenly large."""
    piece = list(itertools.islice(source, min(count, look)))
    while len(piece) < count and piece and sys.getsizeof(piece[-1]) < record_bytes * _LARGER + 1000:
        before = len(piece)
        piece += itertools.islice(source, min(count - before, look))
        if len(piece) == before:
            break
    return piece


def _with(columns: list[Column], piece: list[Any]) -> list[Column]:
    """Append records to columns of one form."""
    column = arrow_form.column(piece, pickled=bool(columns) and columns[0].is_pickled)
    if not columns or column.has_form_of(columns[0]):
        columns.append(column)
        return columns
    # The records turn out to be of mixed types: pickle them all.
    before = arrow_form.records(arrow_form.table(columns).to_batches())
    return [arrow_form.column([*before, *piece], pickled=True)]
