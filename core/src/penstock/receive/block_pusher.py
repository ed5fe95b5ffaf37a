"""``BlockPusher``: the path of a receiver's records, from every form of ``store`` to the driver.

``BlockGenerator`` gathers single records into blocks. ``store_all`` splits records into blocks by the buffer bounds and
the rate limit, ``store_arrow`` by the rate limit alone. One thread reports all queued blocks to the driver in one
message.
"""

from __future__ import annotations

import errno
import itertools
import json
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define, evolve

from penstock import conf
from penstock.blocks import arrow_form
from penstock.blocks.block import Block, StoredBlock
from penstock.errors import PenstockError, ReceiverStoppedError, StoreError, WireError, shown, summary_of, text_of
from penstock.receive.block_generator import BlockGenerator, BlockGeneratorListener, GeneratedBlock
from penstock.receive.messages import AddBlocks, ReceiverDriver, RegisterReceiver
from penstock.receive.rate_limiter import RateLimiter
from penstock.receive.running_receiver import BlocksAccepted, DiskWait, Event, Report, StopRequested, Tick
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff, retry
from penstock.runtime.threads import EngineThread
from penstock.wire.json_codec import Reply, from_json, to_json

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.blocks.received_block_handler import ReceivedBlockHandler
    from penstock.conf import Settings
    from penstock.listen.events import SourceStatus

log = get_logger("receiver_supervisor")

R = TypeVar("R")

# Errors that go away when somebody frees disk space.
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_FIRST_MS, _LONGEST_MS = 50, 5000
# Minimum interval between two reports of the receiver's status; and its interval if there is nothing else to report.
_STATUS_INTERVAL_MS, _IDLE_INTERVAL_MS = 1000, 6000


@define(eq=False)
class _PushedBlock:
    """A block to report to the driver; ``stored`` is ``None`` if no record of a generated block is stored."""

    stored: StoredBlock | None
    # Called on the reporting thread, with the error if the block is lost.
    on_done: Callable[[BaseException | None], object]
    is_generated: bool = False
    failure: BaseException | None = None


class BlockPusher(BlockGeneratorListener):
    """Stores the blocks of one launch and has the driver accept them; ``take`` takes events of the life cycle.

    After one generated block is lost, all later ones are dropped, because the driver must accept single records in
    their order.
    """

    def __init__(
        self,
        launch: RegisterReceiver,
        settings: Settings,
        blocks: ReceivedBlockHandler,
        driver: ReceiverDriver,
        limiter: RateLimiter,
        take: Callable[[Event], object],
    ) -> None:
        self._launch = launch
        self._max_records = settings.max_buffered_records
        self._max_bytes = settings.max_buffered_bytes
        # The number of retries, by the field of ``Settings`` that sets it.
        self._retries = {"store_retries": settings.store_retries, "wal_max_failures": settings.wal_max_failures - 1}
        self._set_by = "wal_max_failures" if settings.wal_enabled else "store_retries"
        self._blocks = blocks
        self._driver = driver
        self._limiter = limiter
        self._timer = limiter.timer
        self._clock = limiter.clock
        self._take = take
        self._log = log.bind(stream_id=launch.stream_id)
        self.generator = BlockGenerator(self, settings, self._clock, limiter)
        self._block_numbers = itertools.count()
        # The number of calls of ``store_all`` and ``store_arrow`` that store a block now.
        self._in_progress = 0
        self._idle = threading.Condition()
        # Once set, the pusher no longer waits for space on a full disk: the block is retried and then lost.
        self._waits_ended = threading.Event()
        # Blocks that wait for a report; None ends the thread.
        self._pushed_blocks: queue.SimpleQueue[_PushedBlock | None] = queue.SimpleQueue()
        self._reporting = EngineThread("BlockPusher reporting", self._keep_reporting)
        # The newest status of the source; the last one that was sent, and when a status was sent, monotonic.
        self._source: SourceStatus | None = None
        self._sent_source: SourceStatus | None = None
        self._status_sent_ms = self._clock.monotonic_ms() - _STATUS_INTERVAL_MS
        # Once set, no further generated block is stored.
        self._push_failure: BaseException | None = None
        # Once set, generated blocks that are already stored are deleted instead of reported.
        self._report_failure: BaseException | None = None

    def start(self) -> None:
        """Accept records, and generate and report blocks."""
        # Before the receiver starts: beside one that stores without a pause, imports take several times as long, and
        # everything that it stores meanwhile would be in the first batch.
        arrow_form.prepare_encoding()
        self._reporting.start()
        self.generator.start()

    def stop(self) -> None:
        """Refuse new records and return when all others are accepted or lost. Idempotent."""
        self.generator.stop()
        with self._idle:
            self._idle.wait_for(lambda: self._in_progress == 0)
        self._pushed_blocks.put(None)
        self._reporting.finish()

    def end_waits(self) -> None:
        """End the waits for disk space, now and later."""
        self._waits_ended.set()
        self._clock.wake()

    # -- on the receiver's threads --

    def store_all(self, records: Iterable[Any], metadata: dict[str, Any] | None) -> None:
        """Store records and return when they are accepted."""
        if isinstance(records, str | bytes | bytearray | memoryview | Mapping):
            raise TypeError(
                f"store_all expects a collection of records, not {type(records).__name__}. To store one record, call "
                "store_all([record])"
            )
        _check_json(metadata)
        marks_last, arrival_ms = metadata is not None, self._clock.now_ms()
        tables = arrow_form.sized_tables(records, self._table_records, self._max_bytes, marks_last=marks_last)
        for table, count, is_last in tables:
            part, values = table, list[Any]()
            for start, stop in self._permits(count):
                if stop - start < count:
                    # The rate limit fell after the table was encoded. A row may contain several pickled records.
                    values = values or list(arrow_form.records(table.to_batches()))
                    part = arrow_form.encode(values[start:stop])
                self._store_now(part, stop - start, metadata if is_last and stop == count else None, arrival_ms)
            # Free the table before the next one is encoded.
            del table, part, values
            arrival_ms = self._clock.now_ms()

    def store_arrow(
        self,
        batch: pa.RecordBatch | pa.Table,
        metadata: dict[str, Any] | Callable[[int], dict[str, Any]] | None,
    ) -> None:
        """Store a columnar batch and return when it is accepted."""
        table, arrival_ms = arrow_form.from_columns(batch), self._clock.now_ms()
        if not callable(metadata):
            _check_json(metadata)
        for start, stop in self._permits(table.num_rows):
            of_block: dict[str, Any] | None = None
            if callable(metadata):
                of_block = metadata(stop)
                _check_json(of_block)
            elif stop == table.num_rows:
                of_block = metadata
            self._store_now(table.slice(start, stop - start), stop - start, of_block, arrival_ms)

    def report_source(self, status: SourceStatus) -> None:
        """Send a status of the source to the driver with the next report, at most once per second."""
        self._source = status

    def push_and_await(self, table: pa.Table, count: int, metadata: dict[str, Any] | None, arrival_ms: int) -> None:
        """Store a block of ``count`` records and return when it is accepted, or raise ``StoreError``."""
        with self._timer.waiting("disk"):
            stored = self._stored(table, count, metadata, arrival_ms)
        done = threading.Event()
        pushed = _PushedBlock(stored, lambda _failure: done.set())
        self._pushed_blocks.put(pushed)
        with self._timer.waiting("driver"):
            done.wait()
        if pushed.failure is not None:
            raise StoreError(text_of(pushed.failure)) from pushed.failure

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

    def _store_now(self, table: pa.Table, count: int, metadata: dict[str, Any] | None, arrival_ms: int) -> None:
        with self._idle:
            if not self.generator.accepts_data:
                raise ReceiverStoppedError("the receiver is not running: the records were not stored")
            self._in_progress += 1
        try:
            self.push_and_await(table, count, metadata, arrival_ms)
        finally:
            with self._idle:
                self._in_progress -= 1
                self._idle.notify_all()

    # -- the listener of the block generator --

    def on_generate_block(self) -> None:
        self._take(Tick())
        if self._is_status_due() and self._pushed_blocks.empty():
            self._pushed_blocks.put(_PushedBlock(None, lambda _failure: None))

    def on_push_block(self, block: GeneratedBlock) -> None:
        left_out: dict[int, BaseException] = {}
        pushed = _PushedBlock(None, partial(self.generator.complete, block, left_out=left_out), is_generated=True)
        pushed.failure = self._push_failure
        if pushed.failure is None:
            try:
                with self._timer.waiting("encoding"):
                    table = self._encoded(block.records, left_out)
                if table is not None:
                    with self._timer.waiting("storing"):
                        pushed.stored = self._stored(table, len(block.records) - len(left_out), None, block.arrival_ms)
            # A plugin's code may raise anything: this thread has to continue, so that the receiver can stop.
            except BaseException as error:
                self._push_failure = error
                pushed.failure = error
        self._pushed_blocks.put(pushed)

    def on_error(self, message: str, error: BaseException, *, is_final: bool) -> None:
        if is_final:
            self._push_failure = error
            self._take(StopRequested(f"{message}: {text_of(error)}", error))
        else:
            self._take(Report(message, error))

    def _encoded(self, records: list[Any], left_out: dict[int, BaseException]) -> pa.Table | None:
        """Encode the records that can be pickled, and report the others; ``None`` if no record remains."""
        try:
            return arrow_form.encode(records)
        except Exception as error:
            left_out |= {number: error for number, record in enumerate(records) if not arrow_form.is_storable(record)}
            if left_out:
                count, first_type = len(left_out), type(records[next(iter(left_out))]).__name__
                counted = f"{count} records" if count > 1 else "1 record"
                what = f"{counted} could not be pickled and {'are' if count > 1 else 'is'} lost"
                advice = f"the first has type {first_type}. Store only records that pickle supports"
                self._take(Report(f"{what}; {advice}", error))
        rest = [record for number, record in enumerate(records) if number not in left_out]
        try:
            return arrow_form.encode(rest) if rest else None
        except Exception as error:
            raise StoreError(f"a block of {len(rest)} records could not be encoded: {summary_of(error)}") from error

    # -- reports --

    def _keep_reporting(self) -> None:
        is_over = False
        while not is_over:
            waiting = [self._pushed_blocks.get()]
            waiting += [self._pushed_blocks.get() for _ in range(self._pushed_blocks.qsize())]
            is_over = None in waiting
            if pushed_blocks := [pushed for pushed in waiting if pushed is not None]:
                self._report_all(pushed_blocks)

    def _report_all(self, waiting: list[_PushedBlock]) -> None:
        try:
            if self._report_failure is not None:
                # These were stored before an earlier one turned out to be lost.
                lost = [pushed for pushed in waiting if pushed.is_generated and pushed.failure is None]
                for pushed in lost:
                    pushed.failure = self._report_failure
                self._blocks.delete([pushed.stored.block_id for pushed in lost if pushed.stored is not None])
            self._report([pushed.stored for pushed in waiting if pushed.stored is not None and pushed.failure is None])
        except BaseException as error:
            for pushed in waiting:
                if pushed.stored is not None and pushed.failure is None:
                    pushed.failure = error
        for pushed in waiting:
            if pushed.is_generated and pushed.failure is not None and self._report_failure is None:
                self._report_failure = pushed.failure
                self.on_error("Error storing a block", pushed.failure, is_final=True)
            pushed.on_done(pushed.failure)

    def _report(self, blocks: list[StoredBlock]) -> None:
        """Report blocks in one message: the driver accepts all of them or none. Refused blocks are deleted."""
        launch = self._launch
        message = AddBlocks(launch.stream_id, launch.epoch, blocks, self.generator.pending_bytes)
        if self._is_status_due(has_blocks=bool(blocks)):
            new = None if self._source is self._sent_source else self._source
            message = evolve(message, source=new, times=self._timer.times())
            self._sent_source = self._source
            self._status_sent_ms = self._clock.monotonic_ms()
        if not blocks:
            # The status alone. After a failure, the newest one is due again a second later.
            if message.times is not None:
                try:
                    self._driver.ask(message, Reply)
                except PenstockError:
                    self._sent_source = None
            return
        # A group may have thousands of blocks.
        first, others = blocks[0].block_id, len(blocks) - 1
        named = f"block {first}"
        if others:
            named += f" and {others} other{'s' if others > 1 else ''}"
        what = f"{named} could not be reported to the driver"
        with self._timer.waiting("reporting"):
            reply = self._retried(lambda: self._driver.ask(message, Reply), what, "store_retries", first, len(blocks))
        if not reply.accepted:
            self._blocks.delete([block.block_id for block in blocks])
            raise StoreError(f"the driver did not accept {named}: {reply.reason}")
        self._take(BlocksAccepted(sum(block.num_records for block in blocks)))

    def _is_status_due(self, *, has_blocks: bool = False) -> bool:
        is_idle = not has_blocks and self._source is self._sent_source
        interval_ms = _IDLE_INTERVAL_MS if is_idle else _STATUS_INTERVAL_MS
        return self._clock.monotonic_ms() - self._status_sent_ms >= interval_ms

    # -- one block --

    def _stored(self, table: pa.Table, count: int, metadata: dict[str, Any] | None, arrival_ms: int) -> StoredBlock:
        stream_id = self._launch.stream_id
        block_id = f"input-{stream_id}-{self._launch.epoch}-{next(self._block_numbers)}"
        block = Block(block_id, stream_id, count, table, metadata)

        what = f"block {block_id} ({count} records) could not be stored"
        stored = self._retried(lambda: self._with_disk_space(lambda: self._store(block)), what, self._set_by, block_id)
        return evolve(stored, arrival_ms=arrival_ms)

    def _store(self, block: Block) -> StoredBlock:
        stored = self._blocks.store(block)
        if not isinstance(stored, StoredBlock):
            raise StoreError(
                f"the store hook returned {shown(stored)} for block {block.block_id}; a plugin that implements store "
                "must return a StoredBlock"
            )
        try:
            from_json(StoredBlock, to_json(stored))
            is_right = stored.stream_id == block.stream_id
        except (WireError, TypeError):
            is_right = False
        if not is_right:
            # The driver would refuse it together with every block of the same report.
            self._blocks.delete([block.block_id])
            raise StoreError(
                f"the store hook returned an invalid StoredBlock for block {block.block_id}: it belongs to another "
                f"stream or has no valid JSON form: {shown(stored)}"
            )
        return stored

    def _with_disk_space(self, action: Callable[[], R]) -> R:
        """Repeat an action until the disk has space for it, or until the receiver is to end."""
        waits = False

        def on_retry(error: BaseException, _delay_ms: float) -> None:
            nonlocal waits
            if not waits:
                waits = True
                self._take(DiskWait(error))

        try:
            return retry(
                action,
                Backoff(_FIRST_MS, _LONGEST_MS),
                retry_if=lambda error: isinstance(error, OSError) and error.errno in _DISK_FULL,
                on_retry=on_retry,
                clock=self._clock,
                stop=self._waits_ended,
            )
        finally:
            # However it ends: the receiver must not stay paused.
            if waits:
                self._take(DiskWait())

    def _retried(self, action: Callable[[], R], what: str, set_by: str, block_id: str, reported: int = 0) -> R:
        """Retry to store a block, or to report a number of blocks of which this is the first."""

        def on_retry(error: BaseException, delay_ms: float) -> None:
            self._log.warning(
                "block not reported, retrying" if reported else "block not stored, retrying",
                block_id=block_id,
                blocks=reported or 1,
                reason=text_of(error),
                delay_ms=round(delay_ms),
                throttle_s=10,
            )

        try:
            return retry(
                action,
                Backoff(_FIRST_MS, _LONGEST_MS),
                retries=self._retries[set_by],
                retry_if=lambda error: isinstance(error, Exception | SystemExit),
                on_retry=on_retry,
                clock=self._clock,
            )
        except (Exception, SystemExit) as error:
            attempts = f"{self._retries[set_by] + 1} attempts ({conf.key(set_by)})"
            raise StoreError(f"{what} after {attempts}: {text_of(error)}") from error


def _check_json(metadata: dict[str, Any] | None) -> None:
    try:
        json.dumps(metadata)
    except (TypeError, ValueError) as error:
        raise StoreError(f"the metadata is not JSON: {error}; nothing was stored") from None
