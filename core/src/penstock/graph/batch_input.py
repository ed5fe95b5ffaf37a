"""``BatchInput``: the input of a batch, which tasks read as columns or as rows."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen
from pyspark import RDD

from penstock.plugins.specs import ArrowInput
from penstock.spark.rdds import BlocksRDD, LocatedPartition, PlaceholderRdds
from penstock.worker.block_reader import ReadBlocks, ReadPartition
from penstock.worker.combine import CountRecords
from penstock.worker.fused import FusedChain

if TYPE_CHECKING:
    import pyarrow as pa

_COUNT = FusedChain((CountRecords(),))

# References up to this total size travel with the function of every task. That is cheaper than an RDD of references,
# which costs several JVM calls per partition. Larger references would cost more in every task.
_SENT_WITH_TASKS_BYTES = 1 << 18


@frozen
class BlocksInput:
    """The blocks of one batch of receiver streams, in partitions.

    Attributes:
        references: the pickled block references, one item per partition.
        hosts: the preferred locations, one item per partition.
        num_bytes: size of the blocks.
        read: reads block references in tasks.
    """

    references: tuple[bytes, ...]
    hosts: tuple[tuple[str, ...], ...]
    num_bytes: int
    read: ReadBlocks

    @classmethod
    def of(cls, partitions: Sequence[LocatedPartition], read: ReadBlocks) -> BlocksInput:
        """The input of partitions whose elements are tuples of block references."""
        references = tuple(pickle.dumps(partition.element, pickle.HIGHEST_PROTOCOL) for partition in partitions)
        num_bytes = sum(partition.num_bytes for partition in partitions)
        return cls(references, tuple(partition.hosts for partition in partitions), num_bytes, read)

    def elements(self, slots: PlaceholderRdds) -> tuple[RDD[Any], ReadPartition]:
        """An RDD with one element per partition, and the partition function that reads the partition's blocks."""
        if sum(map(len, self.references)) <= _SENT_WITH_TASKS_BYTES:
            return slots.at(self.hosts), ReadPartition(self.read, self.references)
        partitions = itertools.starmap(LocatedPartition, zip(self.references, self.hosts, strict=True))
        return slots.located(list(partitions)), ReadPartition(self.read)

    def rdd(self, slots: PlaceholderRdds) -> BlocksRDD:
        """The records."""
        elements, read = self.elements(slots)
        return BlocksRDD(elements, len(self.references), read, _COUNT, self)

    def schema(self) -> pa.Schema | None:
        """The schema of the first block that is not lost; ``None`` if all are lost and lost blocks are skipped."""
        first = next(ReadPartition(self.read).batches(self.references), None)
        return None if first is None else first.schema


def inputs_of(rdd: RDD[Any]) -> tuple[BatchInput, ...]:
    """The blocks of an RDD of blocks, or else the RDD itself; empty for an RDD without blocks."""
    if not isinstance(rdd, BlocksRDD):
        return (rdd,)
    return (rdd.blocks,) if rdd.blocks.references else ()


#: Blocks of receivers; columns of another source; or any other rows.
BatchInput = BlocksInput | ArrowInput | RDD[Any]
