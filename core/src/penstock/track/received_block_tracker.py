"""Which blocks were received, and which batch each belongs to.

Owns one queue of unallocated blocks a stream, and the allocation of every batch still remembered. Never touches a
block's data. Its methods are short, under one lock, and called from the endpoint's threads and the generator's loop.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from penstock.blocks.block import StoredBlock
from penstock.errors import StreamingStateError

_GONE_REMEMBERED = 10_000


class ReceivedBlockTracker:
    """Track the blocks of a fixed set of streams.

    Args:
        stream_ids: of the receiver input streams.
    """

    def __init__(self, stream_ids: Iterable[int]) -> None:
        self._unallocated: dict[int, list[StoredBlock]] = {stream_id: [] for stream_id in stream_ids}
        self._allocated: dict[int, dict[int, list[StoredBlock]]] = {}
        # Blocks added and not yet cleaned up: what makes an addition idempotent.
        self._known: set[str] = set()
        # The last ones cleaned up: a report may be repeated, for want of an answer, when its block has come and gone.
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._last_allocated_ms = self._processed_ms = -1
        self._closed = False
        self._lock = threading.Lock()

    def add_blocks(self, blocks: Iterable[StoredBlock]) -> list[StoredBlock]:
        """Queue blocks, in order. A block that was added before is ignored: its report was repeated.

        Returns:
            Those that have come and gone: a batch had them and was cleaned up.

        Raises:
            StreamingStateError: no batch would have them any more.
        """
        gone = []
        with self._lock:
            if self._closed:
                raise StreamingStateError("the application stops: no batch would have them")
            for block in blocks:
                if block.block_id in self._gone:
                    gone.append(block)
                elif block.block_id not in self._known:
                    self._known.add(block.block_id)
                    self._unallocated[block.stream_id].append(block)
        return gone

    def close(self) -> None:
        """Take no more blocks: those that are here are for the last batches."""
        with self._lock:
            self._closed = True

    def allocate_blocks_to_batch(self, batch_time_ms: int) -> None:
        """Give all unallocated blocks to a batch. A time that is not after the last one changes nothing."""
        with self._lock:
            if batch_time_ms <= self._last_allocated_ms:
                return
            self._allocated[batch_time_ms] = self._unallocated
            self._unallocated = {stream_id: [] for stream_id in self._unallocated}
            self._last_allocated_ms = batch_time_ms

    def blocks_of_batch(self, batch_time_ms: int, stream_id: int) -> list[StoredBlock]:
        """The blocks that a batch has from a stream, in the order of their arrival."""
        with self._lock:
            return list(self._allocated.get(batch_time_ms, {}).get(stream_id, ()))

    @property
    def has_unallocated_blocks(self) -> bool:
        """Whether some block belongs to no batch yet."""
        with self._lock:
            return any(self._unallocated.values())

    @property
    def has_blocks(self) -> bool:
        """Whether some block is needed still, or waits for its batch."""
        with self._lock:
            return bool(self._known)

    def processed(self, until_ms: int) -> list[StoredBlock]:
        """Say which blocks are in batches up to a time, but not in those up to the time that was said before."""
        with self._lock:
            times = [time_ms for time_ms in self._allocated if self._processed_ms < time_ms <= until_ms]
            self._processed_ms = max(self._processed_ms, until_ms)
            return [block for time_ms in times for queue in self._allocated[time_ms].values() for block in queue]

    def clean_up_batches(self, before_ms: int) -> list[StoredBlock]:
        """Forget batches strictly older than a time and return their blocks, which nothing needs any more."""
        with self._lock:
            old = [time_ms for time_ms in self._allocated if time_ms < before_ms]
            blocks = [block for time_ms in old for queue in self._allocated.pop(time_ms).values() for block in queue]
            for block in blocks:
                self._known.discard(block.block_id)
                self._gone[block.block_id] = None
            while len(self._gone) > _GONE_REMEMBERED:
                self._gone.popitem(last=False)
            return blocks
