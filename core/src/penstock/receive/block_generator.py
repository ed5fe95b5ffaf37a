"""``BlockGenerator``: buffers single records and generates a block of them every block interval."""

from __future__ import annotations

import enum
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, field

from penstock.errors import ReceiverStoppedError
from penstock.receive.rate_limiter import RateLimiter
from penstock.runtime.clock import Clock
from penstock.runtime.recurring_timer import RecurringTimer
from penstock.runtime.threads import EngineThread

if TYPE_CHECKING:
    from penstock.conf import Settings

#: Called with ``None`` when a record is stored and accepted, with the error when it is lost.
OnStored = Callable[[BaseException | None], object]


class GeneratorState(enum.Enum):
    """Spark's states of a block generator, in order."""

    Initialized = enum.auto()
    Active = enum.auto()
    #: Records are refused; the buffer is not cut yet.
    StoppedAddingData = enum.auto()
    #: The buffer is empty; blocks may still be pushed.
    StoppedGeneratingBlocks = enum.auto()
    StoppedAll = enum.auto()


@define(eq=False)
class GeneratedBlock:
    """Buffered records, which become a block; ``arrival_ms`` is when the first of them was added."""

    records: list[Any] = field(factory=list)
    arrival_ms: int = 0
    num_bytes: int = 0
    # Callbacks with the positions of their records.
    callbacks: list[tuple[int, OnStored]] = field(factory=list)
    is_complete: bool = False


class BlockGeneratorListener(Protocol):
    """The owner of a generator. Spark's trait without ``onAddData``, which would cost a call per record."""

    def on_generate_block(self) -> None:
        """Called every block interval, before the buffer is cut. Must return at once."""

    def on_push_block(self, block: GeneratedBlock) -> None:
        """Store a block, one call at a time, and have the generator ``complete`` it on another thread, in order."""

    def on_error(self, message: str, error: BaseException, *, is_final: bool) -> None:
        """Called with an error; a final one ends the receiver. Must not wait for the generator."""


class BlockGenerator:
    """Buffers records, generates a block of them every block interval and has the listener push it.

    The number of unaccepted records is bounded: at the bound ``add_data`` waits.
    """

    def __init__(
        self, listener: BlockGeneratorListener, settings: Settings, clock: Clock, limiter: RateLimiter
    ) -> None:
        self._listener = listener
        self._max_records = settings.max_buffered_records
        # In bytes of ``sys.getsizeof``; a single record may exceed it.
        self._max_bytes = settings.max_buffered_bytes
        self._clock = clock
        self._limiter = limiter
        self.state = GeneratorState.Initialized
        #: Whether records may be stored now: the generator is active and refuses none.
        self.accepts_data = False
        self._buffer = GeneratedBlock()
        # The last block that was cut; blocks are completed in the order of their cuts.
        self._last_cut = GeneratedBlock(is_complete=True)
        self._pending_records = 0
        #: The size of the records that are not accepted yet.
        self.pending_bytes = 0
        # Guards the attributes above, from ``accepts_data`` on.
        self._room = threading.Condition()
        # Held from taking the buffer to queueing it, so that blocks keep their order.
        self._cutting = threading.Lock()
        # None ends the thread.
        self._blocks_for_pushing: queue.Queue[GeneratedBlock | None] = queue.Queue(settings.block_queue_size)
        self._timer = RecurringTimer(clock, settings.block_interval_ms, self._tick, "BlockGenerator", self._tick_failed)
        self._pushing = EngineThread("BlockGenerator storing", self._keep_pushing_blocks)
        self.dropped_records = 0
        #: Number of records accepted after the stop began.
        self.flushed_records = 0

    def start(self) -> None:
        """Accept records and generate blocks."""
        self.state = GeneratorState.Active
        self.accepts_data = True
        self._timer.start(self._timer.start_time_ms())
        self._pushing.start()

    def add_data(self, record: Any, on_stored: OnStored | None = None) -> None:
        """Buffer one record when rate limit and bounds allow it, or raise ``ReceiverStoppedError``.

        ``on_stored`` is called once, when the record is accepted or lost.
        """
        self._limiter.acquire(1)
        num_bytes = sys.getsizeof(record)
        with self._room:
            pending = self._pending_records
            # Inlined from ``_is_full``, because it runs per record.
            if pending and (pending >= self._max_records or self.pending_bytes + num_bytes > self._max_bytes):
                with self._limiter.timer.waiting("buffer"):
                    while self.accepts_data and self._pending_records and self._is_full(num_bytes):
                        self._cut_at_bound()
                        self._room.wait()
            if not self.accepts_data:
                raise ReceiverStoppedError("the receiver is not running: the record was not stored")
            buffer = self._buffer
            if on_stored is not None:
                buffer.callbacks.append((len(buffer.records), on_stored))
            if not buffer.records:
                buffer.arrival_ms = self._clock.now_ms()
                self._limiter.timer.note_code()
            buffer.records.append(record)
            buffer.num_bytes += num_bytes
            self._pending_records += 1
            self.pending_bytes += num_bytes

    def refuse(self, refuses: bool) -> None:
        """Refuse new records for the time being, or accept them again."""
        with self._room:
            self.accepts_data = self.state is GeneratorState.Active and not refuses
            self._room.notify_all()

    def flush(self) -> None:
        """Push the buffered records and return when their callbacks were called. Further records may be added."""
        self._cut()
        with self._room:
            last = self._last_cut
            self._room.wait_for(lambda: last.is_complete)

    def stop(self) -> None:
        """Refuse new records, push the buffered ones, return when they are accepted or lost. Idempotent."""
        with self._room:
            is_active = self.state is GeneratorState.Active
            self.state = GeneratorState.StoppedAddingData if is_active else GeneratorState.StoppedAll
            self.accepts_data = False
            self._room.notify_all()
        if not is_active:
            return
        self._timer.stop(interrupt=True)
        self._cut()
        self.state = GeneratorState.StoppedGeneratingBlocks
        self._blocks_for_pushing.put(None)
        self._pushing.finish()
        with self._room:
            self._room.wait_for(lambda: self._last_cut.is_complete)
        self.state = GeneratorState.StoppedAll

    def complete(
        self, block: GeneratedBlock, failure: BaseException | None, left_out: Mapping[int, BaseException]
    ) -> None:
        """Call the callbacks of an accepted block, or of a lost one with its failure, and free its room in the buffer.

        ``left_out`` contains the errors of the records that are missing from an accepted block, by position.
        """
        if failure is not None:
            self.dropped_records += len(block.records)
        elif self.state is not GeneratorState.Active:
            self.flushed_records += len(block.records) - len(left_out)
        for position, on_stored in block.callbacks:
            try:
                on_stored(failure or left_out.get(position))
            # The callback is the receiver's code, which may raise anything.
            except BaseException as error:
                self._listener.on_error("on_stored failed", error, is_final=False)
        with self._room:
            self._pending_records -= len(block.records)
            self.pending_bytes -= block.num_bytes
            # Freed here: the last block stays in ``_last_cut``.
            block.is_complete = True
            block.records = []
            block.callbacks = []
            self._room.notify_all()

    def _is_full(self, num_bytes: int) -> bool:
        return self._pending_records >= self._max_records or self.pending_bytes + num_bytes > self._max_bytes

    def _tick(self, _time_ms: int) -> None:
        self._listener.on_generate_block()
        self._cut()

    def _tick_failed(self, error: BaseException) -> None:
        self._listener.on_error("Error generating a block", error, is_final=True)

    def _cut(self) -> None:
        with self._cutting:
            with self._room:
                block = self._take_buffer()
            if block is not None:
                self._blocks_for_pushing.put(block)

    def _cut_at_bound(self) -> None:
        """Cut before the tick if the storing thread is idle. Never waits, since the caller holds the lock."""
        if self._blocks_for_pushing.empty() and self._cutting.acquire(blocking=False):
            try:
                block = self._take_buffer()
                if block is not None:
                    self._blocks_for_pushing.put_nowait(block)
            finally:
                self._cutting.release()

    def _take_buffer(self) -> GeneratedBlock | None:
        if not self._buffer.records:
            return None
        self._last_cut = self._buffer
        self._buffer = GeneratedBlock()
        return self._last_cut

    def _keep_pushing_blocks(self) -> None:
        while (block := self._blocks_for_pushing.get()) is not None:
            self._listener.on_push_block(block)
