"""``BatchInput``: the input of a batch, which tasks read as columns or as rows."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen
from pyspark import RDD

from penstock.plugins.specs import ArrowInput
from penstock.spark.rdds import BlocksRDD, LocatedPartition, PartitionSlots
from penstock.worker.block_reader import ReadBlocks, ReadPartition
from penstock.worker.combine import CountRecords
from penstock.worker.fused import FusedChain

if TYPE_CHECKING:
    import pyarrow as pa

_COUNT = FusedChain((CountRecords(),))

# References of this size in all travel with each task: an RDD with elements of its own costs several calls of the JVM
# for each partition. Larger ones would cost more than that in every task.
_SENT_WITH_EACH_TASK = 1 << 18


@frozen
class BlocksInput:
    """The blocks of one batch of a receiver stream, or of several, in partitions.

    Attributes:
        references: the pickled block references of each partition.
        hosts: preferred locations of each partition.
        num_bytes: size of the blocks.
        read: reads block references in tasks.
    """

    references: tuple[bytes, ...]
    hosts: tuple[tuple[str, ...], ...]
    num_bytes: int
    read: ReadBlocks

    @classmethod
    def of(cls, partitions: Sequence[LocatedPartition], read: ReadBlocks) -> BlocksInput:
        """The input of some partitions, whose elements are tuples of block references."""
        references = tuple(pickle.dumps(each.element, pickle.HIGHEST_PROTOCOL) for each in partitions)
        num_bytes = sum(each.num_bytes for each in partitions)
        return cls(references, tuple(each.hosts for each in partitions), num_bytes, read)

    @classmethod
    def united(cls, inputs: Sequence[BlocksInput], min_bytes: int) -> BlocksInput:
        """The partitions of several inputs, at least one.

        Small inputs that follow each other and have the same hosts share a partition: a window of many small batches
        is not as many tasks.

        Args:
            inputs: in the order of their records; they are read alike.
            min_bytes: a partition that inputs share has less than twice this size.
        """
        shared: list[list[BlocksInput]] = []
        num_bytes = 0
        for each in inputs:
            num_bytes += each.num_bytes
            has_one = len(each.hosts) == 1 and shared and shared[-1][0].hosts == each.hosts
            if has_one and num_bytes < 2 * min_bytes:
                shared[-1].append(each)
            else:
                shared.append([each])
                num_bytes = each.num_bytes
        references = tuple(itertools.chain.from_iterable(map(_references, shared)))
        hosts = tuple(itertools.chain.from_iterable(group[0].hosts for group in shared))
        return cls(references, hosts, sum(each.num_bytes for each in inputs), inputs[0].read)

    def elements(self, slots: PartitionSlots) -> tuple[RDD[Any], ReadPartition]:
        """An RDD with one element for each partition, and what reads the blocks of the partition from it."""
        if sum(map(len, self.references)) <= _SENT_WITH_EACH_TASK:
            return slots.at(self.hosts), ReadPartition(self.read, self.references)
        located = [LocatedPartition(*each) for each in zip(self.references, self.hosts, strict=True)]
        return slots.located(located), ReadPartition(self.read)

    def rdd(self, slots: PartitionSlots) -> BlocksRDD:
        """The records."""
        elements, read = self.elements(slots)
        return BlocksRDD(elements, len(self.references), read, _COUNT, self)

    def schema(self) -> pa.Schema | None:
        """The schema of the first block that is not lost; ``None`` when all are, and lost blocks are skipped.

        Raises:
            BlockGoneError: the first block is lost, and lost blocks are not skipped.
            BlockUnreachableError: its host cannot be reached now.
        """
        first = next(ReadPartition(self.read).batches(self.references), None)
        return None if first is None else first.schema


def _references(inputs: Sequence[BlocksInput]) -> tuple[bytes, ...]:
    """The references of one input, or of several that share a partition."""
    if len(inputs) == 1:
        return inputs[0].references
    blocks = itertools.chain.from_iterable(pickle.loads(each.references[0]) for each in inputs)
    return (pickle.dumps(tuple(blocks), pickle.HIGHEST_PROTOCOL),)


def inputs_of(rdd: RDD[Any]) -> tuple[BatchInput, ...]:
    """The blocks of an RDD of blocks, none if it has none; else the RDD."""
    if not isinstance(rdd, BlocksRDD):
        return (rdd,)
    return (rdd.blocks,) if rdd.blocks.references else ()


#: Blocks of receivers; columns of another source; or any other rows.
BatchInput = BlocksInput | ArrowInput | RDD[Any]
