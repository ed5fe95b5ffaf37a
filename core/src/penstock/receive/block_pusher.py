"""``BlockPusher``: stores blocks and has the driver accept them. ``BlockReporter``: groups the reports.

Owns the numbering of a launch's blocks and the retries of each. Never buffers and never decides what a failure means
for the receiver. Runs on whatever thread stores.
"""

from __future__ import annotations

import errno
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define, evolve, field

from penstock import conf
from penstock.blocks.block import Block, StoredBlock
from penstock.errors import StoreError, WireError, shown, text_of
from penstock.receive.messages import AddBlocks, ReceiverDriver, RegisterReceiver
from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff, retry
from penstock.wire.json_codec import Reply, from_json, to_json

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.blocks.received_block_handler import ReceivedBlockHandler
    from penstock.conf import Settings

log = get_logger("receiver_supervisor")

R = TypeVar("R")

# Errors that go away when somebody frees disk space.
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
# Delays between retries.
_FIRST_MS, _LONGEST_MS = 50, 5000


class BlockPusher:
    """Push the blocks of one launch of a receiver.

    Args:
        launch: has the id of the input stream and the epoch.
        settings: has the numbers of retries.
        driver: accepts blocks.
        blocks: stores them.
        clock: times the delays between retries.
        ending: set once the receiver is to end: from then on a full disk is an error like any other.
        on_disk_full: called with the error when the first block waits for disk space, with ``None`` when none waits
            any more.

    Attributes:
        buffered_bytes: returns what a report says of the receiver's buffer.
    """

    def __init__(
        self,
        launch: RegisterReceiver,
        settings: Settings,
        driver: ReceiverDriver,
        blocks: ReceivedBlockHandler,
        clock: Clock,
        ending: threading.Event,
        on_disk_full: Callable[[BaseException | None], None] = lambda _error: None,
    ) -> None:
        self._stream_id, self._epoch = launch.stream_id, launch.epoch
        # By the attribute of the key that sets them.
        self._retries = {"store_retries": settings.store_retries, "wal_max_failures": settings.wal_max_failures - 1}
        self._set_by = "wal_max_failures" if settings.wal_enabled else "store_retries"
        self._driver, self._blocks = driver, blocks
        self._clock, self._ending, self._on_disk_full = clock, ending, on_disk_full
        self._log = log.bind(stream_id=launch.stream_id)
        # The number of blocks that wait for disk space.
        self._waiting, self._waiting_lock = 0, threading.Lock()
        self._block_numbers = itertools.count()
        self.buffered_bytes: Callable[[], int] = lambda: 0
        self._reporter = BlockReporter(self._report)

    def store(self, table: pa.Table, count: int, metadata: dict[str, Any] | None, arrival_ms: int) -> StoredBlock:
        """Store a block, to be reported. Waits while the disk is full.

        Args:
            table: the records in their Arrow form.
            count: number of records.
            metadata: JSON values that the receiver gave with the records.
            arrival_ms: when the receiver got the earliest of the records, ms since the epoch.

        Raises:
            StoreError: all retries failed.
        """
        block_id = f"input-{self._stream_id}-{self._epoch}-{next(self._block_numbers)}"
        block = Block(block_id, self._stream_id, count, table, metadata)
        what = f"block {block_id} ({count} records) could not be stored"
        stored = self._retried(lambda: self._with_disk_space(lambda: self._store(block)), what, self._set_by)
        return evolve(stored, arrival_ms=arrival_ms)

    def report(self, blocks: list[StoredBlock]) -> None:
        """Return once the driver has accepted stored blocks.

        Raises:
            StoreError: all retries failed, or the driver refused the blocks, which are deleted then.
        """
        reply = self._reporter.report(blocks)
        if not reply.accepted:
            ids = [block.block_id for block in blocks]
            self._blocks.delete(ids)
            raise StoreError(f"the driver did not accept {_named(blocks)}: {reply.reason}")

    def _report(self, blocks: list[StoredBlock]) -> Reply:
        what = f"{_named(blocks)} could not be reported to the driver"
        message = AddBlocks(self._stream_id, self._epoch, blocks, self.buffered_bytes())
        return self._retried(lambda: self._driver.ask(message, Reply), what, "store_retries")

    def _store(self, block: Block) -> StoredBlock:
        stored = self._blocks.store(block)
        if not isinstance(stored, StoredBlock):
            raise StoreError(f"the store hook gave {shown(stored)} for block {block.block_id}, not a StoredBlock")
        try:
            from_json(StoredBlock, to_json(stored))
            is_right = stored.stream_id == self._stream_id
        except (WireError, TypeError):
            is_right = False
        if not is_right:
            # The driver would refuse it together with every block of the same report.
            self._blocks.delete([block.block_id])
            raise StoreError(f"the store hook gave a wrong StoredBlock for block {block.block_id}: {shown(stored)}")
        return stored

    def _with_disk_space(self, action: Callable[[], R]) -> R:
        """Repeat an action until the disk has space for it, or until the receiver is to end."""
        waits = False

        def on_retry(error: BaseException, _delay_ms: float) -> None:
            nonlocal waits
            if not waits:
                waits = True
                self._count_waiting(1, error)

        try:
            return retry(
                action,
                Backoff(_FIRST_MS, _LONGEST_MS),
                retry_if=lambda error: isinstance(error, OSError) and error.errno in _DISK_FULL,
                on_retry=on_retry,
                clock=self._clock,
                stop=self._ending,
            )
        finally:
            # However it ends: the receiver must not stay paused.
            if waits:
                self._count_waiting(-1, None)

    def _count_waiting(self, change: int, error: BaseException | None) -> None:
        with self._waiting_lock:
            before, self._waiting = self._waiting, self._waiting + change
            if not before or not self._waiting:
                self._on_disk_full(error)

    def _retried(self, action: Callable[[], R], what: str, set_by: str) -> R:
        def on_retry(error: BaseException, delay_ms: float) -> None:
            self._log.warning(
                "store retried", what=what, reason=text_of(error), delay_ms=round(delay_ms), throttle_s=10
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
            raise StoreError(f"{what}, {attempts}: {text_of(error)}") from error


def _named(blocks: list[StoredBlock]) -> str:
    """Blocks in messages; a group may have thousands."""
    others = len(blocks) - 1
    return f"block {blocks[0].block_id}" + f" and {others} other{'s' * (others > 1)}" * (others > 0)


@define(eq=False)
class _Group:
    blocks: list[StoredBlock] = field(factory=list)
    answer: Future[Reply] = field(factory=Future)


class BlockReporter:
    """Reports the blocks of all threads to the driver, one group at a time.

    Blocks that are stored during a report are reported together after it, by the first of their threads that gets to
    it. A group does not change between retries, so that the driver accepts all of it or nothing.

    Args:
        report: sends a group to the driver and returns its answer.
    """

    def __init__(self, report: Callable[[list[StoredBlock]], Reply]) -> None:
        self._report = report
        # Held during a report.
        self._reporting = threading.Lock()
        # The blocks that wait for the report under way, and its guard.
        self._next, self._next_lock = _Group(), threading.Lock()

    def report(self, blocks: list[StoredBlock]) -> Reply:
        """Return the driver's answer to blocks.

        Raises:
            StoreError: the report failed.
        """
        with self._next_lock:
            group = self._next
            group.blocks += blocks
        with self._reporting:
            if not group.answer.done():
                with self._next_lock:
                    self._next = _Group()
                try:
                    group.answer.set_result(self._report(group.blocks))
                except BaseException as error:
                    group.answer.set_exception(error)
                    raise
        if (failure := group.answer.exception()) is not None:
            raise StoreError(text_of(failure)) from failure
        return group.answer.result()
