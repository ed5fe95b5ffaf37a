"""``BlockGenerator``: buffers single records and generates a block of them every block interval."""

from __future__ import annotations

import enum
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, field

from penstock.errors import ReceiverStoppedError
from penstock.receive.block_pusher import PushedBlock
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


class BlockGeneratorListener(Protocol):
    """The owner of a generator. Spark's trait without ``onAddData``, which would cost a call per record."""

    def on_generate_block(self) -> None:
        """Called every block interval, before the buffer is cut. Must return at once."""

    def on_push_block(self, records: list[Any], arrival_ms: int) -> PushedBlock:
        """Store records, the first of which was added at ``arrival_ms``; one call at a time. Its errors are final."""

    def on_error(self, message: str, error: BaseException, *, is_final: bool) -> None:
        """Called with an error; after a final one, all later records are dropped. Must not wait for the generator."""


@define(eq=False)
class _Block:
    records: list[Any] = field(factory=list)
    arrival_ms: int = 0
    num_bytes: int = 0
    # Callbacks with the positions of their records.
    callbacks: list[tuple[int, OnStored]] = field(factory=list)
    # Why its records are lost, unless they are stored.
    pushed: PushedBlock | None = None
    failure: BaseException | None = None
    # Whether its records are accepted or dropped, and its callbacks called.
    done: bool = False


class BlockGenerator:
    """Buffers records, generates a block of them every block interval and has the listener push it.

    The number of unaccepted records is bounded: at the bound ``add_data`` waits, inside ``waiting``. Records are
    dropped only after a push has failed for good. One thread stores blocks and another awaits their acceptance, so
    that storing and reporting overlap.
    """

    def __init__(
        self,
        listener: BlockGeneratorListener,
        settings: Settings,
        clock: Clock,
        waiting: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._listener = listener
        self._max_records = settings.max_buffered_records
        # As ``sys.getsizeof`` counts it; a single record may exceed it.
        self._max_bytes = settings.max_buffered_bytes
        self._clock = clock
        self._waiting = waiting
        self.state = GeneratorState.Initialized
        #: Whether records may be stored now: the generator is active and refuses none.
        self.accepts_data = False
        self._buffer = _Block()
        # The last block that was cut; blocks are done in the order of their cuts.
        self._last_cut = _Block(done=True)
        self._pending_records = 0
        #: The size of the records that are not accepted yet.
        self.pending_bytes = 0
        # Guards all of these.
        self._room = threading.Condition()
        # Held from taking the buffer to queueing it, so that blocks keep their order.
        self._cutting = threading.Lock()
        # None ends the thread that takes from a queue.
        self._blocks_for_pushing: queue.Queue[_Block | None] = queue.Queue(settings.block_queue_size)
        self._pushed_blocks: queue.Queue[_Block | None] = queue.Queue(settings.block_queue_size)
        self._timer = RecurringTimer(clock, settings.block_interval_ms, self._tick, "BlockGenerator", self._fail)
        self._threads = [
            EngineThread("BlockGenerator storing", self._push_blocks),
            EngineThread("BlockGenerator reporting", self._await_pushed_blocks),
        ]
        self._failure: BaseException | None = None
        self.dropped_records = 0
        #: Number of records accepted after the stop began.
        self.flushed_records = 0

    def start(self) -> None:
        """Accept records and generate blocks."""
        self.state = GeneratorState.Active
        self.accepts_data = True
        self._timer.start(self._timer.start_time_ms())
        for thread in self._threads:
            thread.start()

    def add_data(self, record: Any, on_stored: OnStored | None = None) -> None:
        """Buffer one record, waiting while the bounds are reached, or raise ``ReceiverStoppedError``.

        ``on_stored`` is called once on the reporting thread, when the record is accepted or lost.
        """
        num_bytes = sys.getsizeof(record)
        with self._room:
            pending = self._pending_records
            # Not a call of _is_full: this is done per record.
            if pending and (pending >= self._max_records or self.pending_bytes + num_bytes > self._max_bytes):
                with self._waiting():
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
        """Push what is buffered; return when its callbacks were called. More may be added."""
        self._cut()
        with self._room:
            last = self._last_cut
            self._room.wait_for(lambda: last.done)

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
        for thread in self._threads:
            thread.finish()
        self.state = GeneratorState.StoppedAll

    def _is_full(self, num_bytes: int) -> bool:
        return self._pending_records >= self._max_records or self.pending_bytes + num_bytes > self._max_bytes

    def _tick(self, _time_ms: int) -> None:
        self._listener.on_generate_block()
        self._cut()

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

    def _take_buffer(self) -> _Block | None:
        if not self._buffer.records:
            return None
        self._last_cut = self._buffer
        self._buffer = _Block()
        return self._last_cut

    def _push_blocks(self) -> None:
        failure: BaseException | None = None
        while (block := self._blocks_for_pushing.get()) is not None:
            failure = failure or self._failure
            if failure is None:
                try:
                    block.pushed = self._listener.on_push_block(block.records, block.arrival_ms)
                except (Exception, SystemExit) as error:
                    failure = error
            block.failure = failure
            self._pushed_blocks.put(block)
        self._pushed_blocks.put(None)

    def _await_pushed_blocks(self) -> None:
        while (block := self._pushed_blocks.get()) is not None:
            try:
                self._await_pushed(block)
                self._complete(block)
            finally:
                with self._room:
                    self._pending_records -= len(block.records)
                    self.pending_bytes -= block.num_bytes
                    # Freed here: the last block stays in ``_last_cut``.
                    block.done = True
                    block.records = []
                    block.callbacks = []
                    self._room.notify_all()

    def _await_pushed(self, block: _Block) -> None:
        try:
            if self._failure is not None and (block.pushed is None or block.pushed.withdraw()):
                block.failure = self._failure
            elif block.pushed is not None:
                block.pushed.await_accepted()
        except (Exception, SystemExit) as error:
            block.failure = error
        if block.failure is not None and self._failure is None:
            self._fail(block.failure)

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._listener.on_error("Error storing a block", error, is_final=True)

    def _complete(self, block: _Block) -> None:
        left_out = {} if block.pushed is None else block.pushed.left_out
        if block.failure is not None:
            self.dropped_records += len(block.records)
        elif self.state is not GeneratorState.Active:
            self.flushed_records += len(block.records) - len(left_out)
        for position, on_stored in block.callbacks:
            try:
                on_stored(block.failure or left_out.get(position))
            # The callback is the receiver's code.
            except (Exception, SystemExit) as error:
                self._listener.on_error("on_stored failed", error, is_final=False)
