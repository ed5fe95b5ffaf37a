"""``ReceivedBlockTracker``: records the received blocks and allocates them to batches.

With a write-ahead log, a decision is written there first, outside every lock that additions need, and takes effect
once it is committed; one that cannot be written has no effect. Called on the endpoint's threads and the generator's
loop.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from penstock.blocks.block import StoredBlock
from penstock.errors import ClaimLostError, WriteAheadLogError
from penstock.journal.reader import Recovered
from penstock.journal.write_ahead_log import WriteAheadLog
from penstock.runtime.log import get_logger
from penstock.track import allocations
from penstock.track.allocations import Allocations, Event

log = get_logger("received_block_tracker")


class ReceivedBlockTracker:
    """Track the blocks of a fixed set of streams; recovers the events of a write-ahead log that is not started yet."""

    def __init__(self, stream_ids: Iterable[int], write_ahead_log: WriteAheadLog | None = None) -> None:
        self._stream_ids = dict.fromkeys(stream_ids)
        self._write_ahead_log = write_ahead_log
        #: The allocations of blocks to batches; read on any thread.
        self.state = Allocations()
        #: The result of the recovery of the write-ahead log.
        self.recovered = Recovered(0) if write_ahead_log is None else write_ahead_log.recover(self.state)
        # Number of recovered blocks at the head of each queue.
        self._recovered_counts = {
            stream_id: len(blocks) for stream_id, blocks in self.state.queues(self._stream_ids).items() if blocks
        }
        self._records_per_batch: dict[int, float] = {}
        self._processed_ms = -1
        # The failed batches up to that time.
        self._unprocessed: set[int] = set()
        # Batches that were retained beyond their time, for failed ones.
        self._retained: set[int] = set()
        #: Whether no batch would get new blocks. Read inside ``adding``, for which ``seal`` waits.
        self.is_sealed = False
        # Ids of blocks that some thread is adding, and their guard.
        self._being_added: set[str] = set()
        self._additions = threading.Condition()
        # One decision about batches at a time; additions do not wait for it.
        self._deciding = threading.Lock()
        for stream_id, records in self.set_aside().items():
            log.warning("records of removed stream set aside", stream_id=stream_id, records=records)

    def start(self) -> None:
        """Start the write-ahead log."""
        if self._write_ahead_log is not None:
            self._write_ahead_log.start()

    def close(self) -> None:
        """Close the write-ahead log; no block can be added or allocated afterwards."""
        if self._write_ahead_log is not None:
            self._write_ahead_log.close()

    @contextmanager
    def adding(self, blocks: Iterable[StoredBlock]) -> Iterator[list[StoredBlock]]:
        """Find out which blocks are new, and add these, or none, inside the ``with`` block.

        Waits while another thread adds one of them. A report that is repeated while its first copy is being written is
        therefore answered like that one.
        """
        blocks = list(blocks)
        ids = {block.block_id for block in blocks}
        with self._additions:
            self._additions.wait_for(lambda: self._being_added.isdisjoint(ids))
            self._being_added |= ids
        try:
            yield self.state.new(blocks)
        finally:
            with self._additions:
                self._being_added -= ids
                self._additions.notify_all()

    def retained_ids(self) -> set[str]:
        """The ids of the blocks that are not cleaned up, and of those that some thread is adding."""
        with self._additions:
            being_added = set(self._being_added)
        return being_added.union(block.block_id for block in self.state.retained())

    def add_blocks(self, blocks: Iterable[StoredBlock]) -> None:
        """Queue blocks in order, except those added before. If ``WriteAheadLogError`` is raised, none is queued."""
        self._write(allocations.blocks_added(blocks))

    def seal(self, timeout_s: float) -> None:
        """Accept no more blocks: those that are queued, or queued by a thread that adds them now, are the last."""
        self.is_sealed = True
        with self._additions:
            if not self._additions.wait_for(lambda: not self._being_added, timeout_s):
                log.warning("last blocks not added in time", blocks=len(self._being_added), timeout_s=timeout_s)

    def allocate_blocks_to_batch(self, batch_time_ms: int) -> None:
        """Allocate unallocated blocks to a batch: all, or recovered ones as ``spread_recovered_blocks`` limits them.

        A time that is not after the last one changes nothing, nor does an allocation that cannot be written.
        """
        with self._deciding:
            if batch_time_ms <= self.state.last_allocated_ms:
                return
            queues = self.state.queues(self._stream_ids)
            taken = {stream_id: blocks[: self._how_many(stream_id, blocks)] for stream_id, blocks in queues.items()}
            block_ids = {stream_id: [block.block_id for block in blocks] for stream_id, blocks in taken.items()}
            self._write(allocations.batch_allocated(batch_time_ms, block_ids))
            left = {stream_id: count - len(taken[stream_id]) for stream_id, count in self._recovered_counts.items()}
            self._recovered_counts = {stream_id: count for stream_id, count in left.items() if count > 0}

    def _how_many(self, stream_id: int, blocks: list[StoredBlock]) -> int:
        """The number of blocks that a batch gets from the head of a queue."""
        recovered, limit = self._recovered_counts.get(stream_id, 0), self._records_per_batch.get(stream_id)
        # No further batch comes after the seal.
        if not recovered or limit is None or self.is_sealed:
            return len(blocks)
        records = 0
        for count, block in enumerate(blocks[:recovered]):
            records += block.num_records
            # At least one block, however large.
            if count and records > limit:
                return count
        return len(blocks)

    def spread_recovered_blocks(self, records_per_batch: Mapping[int, float]) -> None:
        """Limit the recovered records per batch, by stream id, until ``seal``; new blocks wait for their allocation."""
        with self._deciding:
            self._records_per_batch = dict(records_per_batch)

    def unallocated_records(self) -> dict[int, int]:
        """The number of records that belong to no batch, by stream."""
        return self._records(self.state.waiting_streams.intersection(self._stream_ids))

    @property
    def log_bytes(self) -> int | None:
        """The size of the write-ahead log; ``None`` without one."""
        return None if self._write_ahead_log is None else self._write_ahead_log.num_bytes

    def set_aside(self) -> dict[int, int]:
        """The number of recovered records of streams that the program no longer has. They stay in the log."""
        return self._records(self.state.waiting_streams.difference(self._stream_ids))

    def _records(self, stream_ids: Iterable[int]) -> dict[int, int]:
        queues = self.state.queues(sorted(stream_ids))
        return {stream_id: sum(block.num_records for block in blocks) for stream_id, blocks in queues.items()}

    def forget_streams(self, stream_ids: Iterable[int]) -> None:
        """Forget the blocks of streams that the program has removed."""
        self._write(allocations.streams_forgotten(stream_ids))

    def note_launches(self, epochs: Mapping[int, int]) -> bool:
        """Save the epochs of launches that are about to start, by stream, so that no later run uses them again.

        Returns whether they are saved: then nothing counts whose outcome was unknown before.
        """
        if self._write_ahead_log is None or not epochs:
            return False
        try:
            self._write(allocations.receivers_launched(epochs))
        # The new owner of the directory may launch receivers with the same numbers.
        except ClaimLostError:
            raise
        except WriteAheadLogError as error:
            # The ids of the launch's blocks contain its number as well.
            log.warning("launches not written to write-ahead log", reason=str(error))
            return False
        return True

    def blocks_of_batch(self, batch_time_ms: int, stream_id: int) -> list[StoredBlock]:
        """The blocks that a batch has from a stream, in the order of their arrival."""
        return self.state.blocks(batch_time_ms, stream_id)

    @property
    def has_unallocated_blocks(self) -> bool:
        """Whether some block belongs to no batch."""
        return not self.state.waiting_streams.isdisjoint(self._stream_ids)

    def processed(self, until_ms: int, failed: Collection[int] = ()) -> list[StoredBlock]:
        """The blocks of batches up to a time, except failed and retained ones, that were not in an earlier answer."""
        unprocessed = {time_ms for time_ms in failed if time_ms <= until_ms}
        new = {time_ms for time_ms in self.state.times if self._processed_ms < time_ms <= until_ms}
        blocks = self.state.blocks_of_batches((new | self._unprocessed) - unprocessed - self._retained)
        self._unprocessed = unprocessed
        self._processed_ms = max(self._processed_ms, until_ms)
        return blocks

    def clean_up_batches(self, before_ms: int, retained: Sequence[range] = ()) -> list[StoredBlock]:
        """Forget batches strictly older than a time, except in retained ranges, and return their blocks.

        Forgets nothing while the log cannot be written.
        """
        with self._deciding:
            old = allocations.old_batches(self.state.times, before_ms, retained)
            if not old:
                return []
            blocks = self.state.blocks_of_batches(old)
            try:
                self._write(allocations.batches_cleaned(before_ms, retained))
            except WriteAheadLogError as error:
                log.warning("old batches not cleaned up", before=before_ms, reason=str(error))
                return []
        return [block for block in blocks if block.stream_id in self._stream_ids]

    def retained(self, before_ms: int) -> list[StoredBlock]:
        """The blocks of batches older than a time that were not cleaned up, and were not in an earlier answer."""
        retained = {time_ms for time_ms in self.state.times if time_ms < before_ms}
        blocks = self.state.blocks_of_batches(retained - self._retained)
        self._retained = retained
        return blocks

    def _write(self, event: Event) -> None:
        if self._write_ahead_log is None:
            self.state.apply(event)
        else:
            self._write_ahead_log.append(event)
