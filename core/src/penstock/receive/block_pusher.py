"""``BlockPusher``: stores blocks and has the driver accept them; those stored during a report are reported together."""

from __future__ import annotations

import errno
import itertools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define, evolve, field

from penstock import conf
from penstock.blocks import arrow_form
from penstock.blocks.block import Block, StoredBlock
from penstock.errors import StoreError, WireError, shown, text_of
from penstock.receive.lifecycle_events import BlocksAccepted, DiskWait, Event, Report
from penstock.receive.messages import RegisterReceiver
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
_FIRST_MS, _LONGEST_MS = 50, 5000


@define(eq=False)
class _Group:
    """Blocks of one report. They do not change once it has begun, so that the driver accepts all of them or none."""

    blocks: list[StoredBlock] = field(factory=list)
    is_done: bool = False
    failure: BaseException | None = None


@define(eq=False)
class PushedBlock:
    """A stored block that waits for a report."""

    _pusher: BlockPusher
    _group: _Group
    _stored: StoredBlock | None
    # The errors of records that were left out, by position.
    left_out: Mapping[int, BaseException] = field(factory=dict)

    def await_accepted(self) -> None:
        """Return once the driver has accepted the block, or raise ``StoreError``; refused blocks are deleted."""
        if self._stored is not None:
            self._pusher.await_reported(self._group)

    def withdraw(self) -> bool:
        """Delete the block and do not report it, unless that has begun; return whether it was withdrawn."""
        return self._stored is None or self._pusher.withdraw(self._group, self._stored)


class BlockPusher:
    """Pushes the blocks of one launch; ``report`` sends them to the driver, ``take`` takes events of the life cycle."""

    def __init__(
        self,
        launch: RegisterReceiver,
        settings: Settings,
        blocks: ReceivedBlockHandler,
        report: Callable[[list[StoredBlock]], Reply],
        clock: Clock,
        take: Callable[[Event], object],
    ) -> None:
        self._stream_id = launch.stream_id
        self._epoch = launch.epoch
        # By the attribute of the key that sets them.
        self._retries = {"store_retries": settings.store_retries, "wal_max_failures": settings.wal_max_failures - 1}
        self._set_by = "wal_max_failures" if settings.wal_enabled else "store_retries"
        self._blocks = blocks
        self._report = report
        self._clock = clock
        self._take = take
        self._log = log.bind(stream_id=launch.stream_id)
        # Once set, a full disk is an error like any other.
        self._waits_ended = threading.Event()
        self._block_numbers = itertools.count()
        # Held during a report.
        self._reporting = threading.Lock()
        # The blocks that wait for the report under way, and its guard.
        self._next = _Group()
        self._next_lock = threading.Lock()

    def push_records(self, records: list[Any], arrival_ms: int) -> PushedBlock:
        """Store records as ``push_table`` does, without those that cannot be pickled, which are reported."""
        left_out: dict[int, BaseException] = {}
        try:
            table = arrow_form.encode(records)
        except Exception as error:
            left_out = {number: error for number, record in enumerate(records) if not arrow_form.is_storable(record)}
            first = records[next(iter(left_out), 0)]
            records = [record for number, record in enumerate(records) if number not in left_out]
            count, kind = len(left_out), type(first).__name__
            what = f"{count} record{'s' * (count != 1)} left out, because pickle fails; the first is of type {kind}"
            self._take(Report(what, error))
            if not records:
                return PushedBlock(self, self._next, None, left_out)
            table = arrow_form.encode(records)
        return evolve(self.push_table(table, len(records), None, arrival_ms), left_out=left_out)

    def push_table(self, table: pa.Table, count: int, metadata: dict[str, Any] | None, arrival_ms: int) -> PushedBlock:
        """Store a block of ``count`` records, the first of which arrived at ``arrival_ms``, or raise ``StoreError``."""
        block_id = f"input-{self._stream_id}-{self._epoch}-{next(self._block_numbers)}"
        block = Block(block_id, self._stream_id, count, table, metadata)
        what = f"block {block_id} ({count} records) could not be stored"
        stored = self._retried(lambda: self._with_disk_space(lambda: self._store(block)), what, self._set_by)
        stored = evolve(stored, arrival_ms=arrival_ms)
        with self._next_lock:
            group = self._next
            group.blocks.append(stored)
        return PushedBlock(self, group, stored)

    def end_waits(self) -> None:
        """End the waits for disk space, now and later."""
        self._waits_ended.set()
        self._clock.wake()

    # -- reports --

    def await_reported(self, group: _Group) -> None:
        """See ``PushedBlock.await_accepted``. The first thread that gets to it reports all blocks that wait."""
        with self._reporting:
            if not group.is_done:
                with self._next_lock:
                    self._next = _Group()
                try:
                    self._report_group(group.blocks)
                except BaseException as error:
                    group.failure = error
                    raise
                finally:
                    group.is_done = True
        if group.failure is not None:
            raise StoreError(text_of(group.failure)) from group.failure

    def withdraw(self, group: _Group, stored: StoredBlock) -> bool:
        """See ``PushedBlock.withdraw``."""
        with self._next_lock:
            if group is not self._next:
                return False
            group.blocks.remove(stored)
        self._blocks.delete([stored.block_id])
        return True

    def _report_group(self, blocks: list[StoredBlock]) -> None:
        what = f"{_named(blocks)} could not be reported to the driver"
        reply = self._retried(lambda: self._report(blocks), what, "store_retries")
        if not reply.accepted:
            self._blocks.delete([block.block_id for block in blocks])
            raise StoreError(f"the driver did not accept {_named(blocks)}: {reply.reason}")
        self._take(BlocksAccepted(sum(block.num_records for block in blocks)))

    # -- one block --

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
