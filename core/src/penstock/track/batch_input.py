"""``BatchInput``: the received blocks of a batch, as partitions of block references.

Small blocks of one host share a partition, in the order of their arrival. Called on the generator's loop.
"""

from __future__ import annotations

from penstock.blocks.block import BlockReference
from penstock.spark.rdds import LocatedPartition
from penstock.track.receiver_tracker import ReceiverTracker
from penstock.worker.block_reader import ReadBlocks


class BatchInput:
    """What the graph and the job generator see of the tracker.

    Args:
        tracker: has the blocks.
        partition_bytes: size up to which blocks share a partition.
    """

    def __init__(self, tracker: ReceiverTracker, partition_bytes: int) -> None:
        self._tracker, self._partition_bytes = tracker, partition_bytes

    @property
    def reader(self) -> ReadBlocks:
        """What tasks read the references with."""
        return self._tracker.reader()

    def allocate_blocks_to_batch(self, batch_time_ms: int) -> None:
        """Give all unallocated blocks to a batch."""
        self._tracker.blocks.allocate_blocks_to_batch(batch_time_ms)

    @property
    def has_unallocated_blocks(self) -> bool:
        """Whether some block belongs to no batch."""
        return self._tracker.blocks.has_unallocated_blocks

    @property
    def last_allocated_ms(self) -> int:
        """The last batch that was allocated; -1 for none."""
        return self._tracker.blocks.last_allocated_ms

    def clean_up(self, before_ms: int, *, delete: bool) -> None:
        """Forget batches strictly older than a time and, if ``delete``, delete their blocks."""
        self._tracker.clean_up(before_ms, delete=delete)

    def processed(self, until_ms: int) -> None:
        """Note that the batches up to a time are complete."""
        self._tracker.processed(until_ms)

    def pause(self, paused: bool) -> None:
        """Pause or resume all receivers."""
        self._tracker.pause(paused)

    def count(self, batch_time_ms: int, stream_id: int) -> int:
        """The number of records that a batch has from a stream."""
        return sum(block.num_records for block in self._tracker.blocks.blocks_of_batch(batch_time_ms, stream_id))

    def rate_limit(self, stream_id: int) -> float | None:
        """The rate limit of a receiver, records/s; ``None`` for no limit."""
        return self._tracker.rate_limit(stream_id)

    def partitions(self, batch_time_ms: int, stream_id: int) -> list[LocatedPartition]:
        """The blocks that a batch has from a stream, as partitions of references."""
        blocks = self._tracker.blocks.blocks_of_batch(batch_time_ms, stream_id)
        return pack(self._tracker.references(blocks), self._partition_bytes)


def pack(located: list[tuple[str, int, BlockReference]], partition_bytes: int) -> list[LocatedPartition]:
    """Put references into partitions.

    Args:
        located: host, size in bytes and reference of each block.
        partition_bytes: a partition is complete at this size.

    Returns:
        Partitions whose elements are tuples of references, each of one host.
    """
    partitions: list[tuple[str, list[BlockReference]]] = []
    filled = partition_bytes
    for host, num_bytes, reference in located:
        if filled >= partition_bytes or partitions[-1][0] != host:
            partitions.append((host, []))
            filled = 0
        partitions[-1][1].append(reference)
        filled += num_bytes
    return [LocatedPartition(tuple(references), (host,) if host else ()) for host, references in partitions]
