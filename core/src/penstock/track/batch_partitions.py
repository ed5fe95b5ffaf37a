"""How many partitions a batch of a receiver stream has, and which blocks are in each. Pure functions.

A partition costs a task, and each task sends its own share of a reduction through the shuffle; too few partitions leave
slots idle. So a batch has as many partitions as slots are free, but none smaller than a minimum: a small batch is one
partition, which needs no shuffle at all. Only batches that would exceed the maximum have more, in full waves of slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import frozen

from penstock.blocks.block import BlockReference
from penstock.spark.rdds import LocatedPartition

#: Host, size in bytes and reference of a block.
Located = tuple[str, int, BlockReference]


@frozen
class PartitionBounds:
    """The bounds of a batch's partitions.

    Attributes:
        min_bytes: no further partition is made below this size.
        max_bytes: size of a partition above which there are more partitions than slots.
        number: the number of partitions that the user asked for, whatever their size; 0: by size.
    """

    min_bytes: int
    max_bytes: int
    number: int = 0


def how_many(num_bytes: int, slots: int, bounds: PartitionBounds) -> int:
    """The number of partitions of a batch that is not empty.

    Args:
        num_bytes: size of the batch.
        slots: task slots that receivers leave free, at least one.
        bounds: the configured bounds of a partition's size.
    """
    if bounds.number:
        return bounds.number
    at_least = -(-num_bytes // bounds.max_bytes)
    if at_least > slots:
        return -(-at_least // slots) * slots
    return max(min(slots, num_bytes // bounds.min_bytes), at_least, 1)


def pack(located: Sequence[Located], slots: int, bounds: PartitionBounds) -> list[LocatedPartition]:
    """Put blocks into partitions: host by host, and those of a host in the order of their arrival.

    A partition ends with the block that fills its share of the batch. It also ends where the host changes, unless it is
    below the minimum: then its task fetches the blocks of the other host.

    Args:
        located: the blocks of a batch.
        slots: task slots that receivers leave free, at least one.
        bounds: the limits that the configuration sets.

    Returns:
        Partitions whose elements are tuples of references, each preferring the host that has most of its bytes.
    """
    hosts = dict[str, int]()
    located = sorted(located, key=lambda block: hosts.setdefault(block[0], len(hosts)))
    total = sum(num_bytes for _host, num_bytes, _reference in located)
    number = how_many(total, slots, bounds)
    groups: list[list[Located]] = []
    begun, share, filled = 0, -1, 0
    for block in located:
        host, num_bytes, _reference = block
        # By where the block begins: blocks that are too large or too small for one share do not shift all others.
        own_share = min(begun * number // total, number - 1) if total else 0
        if own_share != share or (groups[-1][-1][0] != host and filled >= bounds.min_bytes):
            groups.append([])
            filled = 0
        groups[-1].append(block)
        share, filled, begun = own_share, filled + num_bytes, begun + num_bytes
    return [
        LocatedPartition(tuple(each[2] for each in group), _preferred(group), sum(each[1] for each in group))
        for group in groups
    ]


def _preferred(group: Sequence[Located]) -> tuple[str, ...]:
    bytes_of = Counter[str]()
    for host, num_bytes, _reference in group:
        bytes_of[host] += num_bytes
    host = max(bytes_of, key=bytes_of.__getitem__)
    return (host,) if host else ()
