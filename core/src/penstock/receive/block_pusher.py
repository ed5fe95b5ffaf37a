"""``BlockPusher``: the way of one block: give it a home, then have the driver accept it.

Owns the numbering of a launch's blocks and the tries that each gets, and each report of some. Never buffers, never
decides what a failure means for the receiver. Runs on whatever thread stores.
"""

from __future__ import annotations

import errno
import itertools
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.blocks.block import Block, StoredBlock
from penstock.errors import StoreError, WireError, text_of
from penstock.receive.block_reporter import BlockReporter
from penstock.receive.messages import AddBlocks
from penstock.runtime.clock import Clock
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff
from penstock.wire.messages import Reply, from_json, to_json

if TYPE_CHECKING:
    import pyarrow as pa

log = get_logger("receiver_supervisor")

R = TypeVar("R")

# What making room would mend.
_FULL = {errno.ENOSPC, errno.EDQUOT}

# The pauses between tries.
_FIRST_MS, _LONGEST_MS = 50, 5000


class Driver(Protocol):
    """The driver, as a receiver sees it."""

    def ask(self, message: object, reply_kind: type[R]) -> R:
        """Send a message and return the reply; raises WireError."""
        ...


class BlockPusher:
    """Push the blocks of one launch of a receiver.

    Args:
        stream_id: of its input stream.
        epoch: the number of the launch.
        store_retries: further tries that storing gets.
        report_retries: further tries that reporting gets.
        driver: accepts blocks.
        store: gives a block a home.
        discard: deletes blocks that were stored but not accepted.
        clock: of the pauses between tries.
        ending: set once the receiver is to end: from then on a full disk is an error like any other.
        terminated: cuts the pauses short.
        on_disk_full: is told that a block waits for room on the disk, with the error, and with ``None`` that none does
            any more.
    """

    def __init__(
        self,
        stream_id: int,
        epoch: int,
        store_retries: int,
        report_retries: int,
        driver: Driver,
        store: Callable[[Block], StoredBlock | None],
        discard: Callable[[Iterable[str]], object],
        clock: Clock,
        ending: threading.Event,
        terminated: threading.Event,
        on_disk_full: Callable[[BaseException | None], None] = lambda _error: None,
    ) -> None:
        self._stream_id, self._epoch = stream_id, epoch
        self._store_retries, self._report_retries = store_retries, report_retries
        self._driver, self._store, self._discard = driver, store, discard
        self._clock, self._ending, self._terminated, self._on_disk_full = clock, ending, terminated, on_disk_full
        # How many blocks wait for room.
        self._waiting, self._waiting_lock = 0, threading.Lock()
        self._block_numbers = itertools.count()
        self._reporter = BlockReporter(self._report)

    def push(self, table: pa.Table, count: int, metadata: dict[str, Any] | None) -> None:
        """Return once a block is stored and accepted. A full disk is waited for.

        Raises:
            StoreError: it could not be, with all tries, or the driver refused it.
        """
        block_id = f"input-{self._stream_id}-{self._epoch}-{next(self._block_numbers)}"
        block = Block(block_id, self._stream_id, count, table, metadata)
        what = f"block {block_id} ({count} records)"
        stored = self._retried(lambda: self._with_room(lambda: self._stored(block)), what, self._store_retries)
        reply = self._reporter.report(stored)
        if not reply.accepted:
            self._discard([stored.block_id])
            raise StoreError(f"the driver did not accept block {block_id}: {reply.reason}")

    def _report(self, blocks: list[StoredBlock]) -> Reply:
        message = AddBlocks(self._stream_id, self._epoch, blocks)
        what = f"the report of block {', '.join(block.block_id for block in blocks)}"
        return self._retried(lambda: self._driver.ask(message, Reply), what, self._report_retries)

    def _stored(self, block: Block) -> StoredBlock:
        stored = self._store(block)
        if not isinstance(stored, StoredBlock):
            raise StoreError(f"the store hook gave {stored!r} for block {block.block_id}, not a StoredBlock")
        try:
            from_json(StoredBlock, to_json(stored))
            is_right = stored.stream_id == self._stream_id
        except (WireError, TypeError):
            is_right = False
        if not is_right:
            # The driver would refuse it, and all that is reported together with it.
            self._discard([block.block_id])
            raise StoreError(f"the store hook gave a wrong StoredBlock for block {block.block_id}: {stored!r}")
        return stored

    def _with_room(self, action: Callable[[], R]) -> R:
        """Do something, as soon as there is room for it on the disk, unless the receiver is to end."""
        backoff, waits = Backoff(_FIRST_MS, _LONGEST_MS), False
        try:
            while True:
                ends = self._ending.is_set()
                try:
                    return action()
                except OSError as error:
                    if error.errno not in _FULL or ends:
                        raise
                    if not waits:
                        waits = True
                        self._note_waiting(1, error)
                    self._clock.wait_for(backoff.next_ms(), self._ending)
        finally:
            # However it ends: what waits behind it must not wait for ever.
            if waits:
                self._note_waiting(-1, None)

    def _note_waiting(self, change: int, error: BaseException | None) -> None:
        """Tell of the first block that waits, and when none does any more."""
        with self._waiting_lock:
            before, self._waiting = self._waiting, self._waiting + change
            if not before or not self._waiting:
                self._on_disk_full(error)

    def _retried(self, action: Callable[[], R], what: str, retries: int) -> R:
        backoff = Backoff(_FIRST_MS, _LONGEST_MS)
        while True:
            try:
                return action()
            except (Exception, SystemExit) as error:
                if backoff.failures >= retries:
                    raise StoreError(f"{what} could not be stored, {retries + 1} tries: {text_of(error)}") from error
                log.warning("store failed, trying again", stream_id=self._stream_id, what=what, error=text_of(error))
                self._clock.wait_for(backoff.next_ms(), self._terminated)
