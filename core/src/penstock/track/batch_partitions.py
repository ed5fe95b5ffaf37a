"""How many partitions a batch of a receiver stream has, and which blocks are in each. Pure functions.

A partition costs a task, and each task sends its own share of a reduction through the shuffle; too few partitions leave
slots idle. So a batch has as many partitions as slots are free, but none smaller than a minimum: a small batch is one
partition, which needs no shuffle at all. Only batches that would exceed the maximum have more, in full waves of slots.
A large block is cut between partitions: with three whole blocks, one of two slots would have twice the work of the
other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

from penstock.blocks.block import BlockReference
from penstock.spark.rdds import LocatedPartition
from penstock.storage.uri import is_remote

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

    A partition ends with its share of the batch. The block in which a share ends is cut there, unless one of the pieces
    would be below the minimum. A partition also ends where the host changes, unless it is below the minimum: then its
    task fetches the blocks of the other host.

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
        for own_share, piece in _pieces(block, begun, number, total, bounds.min_bytes):
            if own_share != share or (groups[-1][-1][0] != piece[0] and filled >= bounds.min_bytes):
                groups.append([])
                filled = 0
            groups[-1].append(piece)
            share, filled = own_share, filled + piece[1]
        begun += block[1]
    return [
        LocatedPartition(tuple(each[2] for each in group), _preferred(group), sum(each[1] for each in group))
        for group in groups
    ]


def _pieces(block: Located, begun: int, number: int, total: int, min_bytes: int) -> Iterator[tuple[int, Located]]:
    """The share of a block, and the block itself; or several shares and the pieces of the block that belong to them.

    Args:
        block: a block of the batch.
        begun: size of the blocks before it, in bytes.
        number: number of shares.
        total: size of the batch, in bytes.
        min_bytes: the smallest size of a piece.
    """
    host, num_bytes, reference = block
    # By where the block begins: blocks that are too large or too small for one share do not shift all others.
    share = min(begun * number // total, number - 1) if total else 0
    first = first_record = 0
    # The task of each piece of a remote file would read all of it.
    last_share = share if is_remote(reference.path) else number - 1
    for next_share in range(share + 1, last_share + 1):
        end = -(-next_share * total // number) - begun
        if num_bytes - end < min_bytes:
            break
        end_record = end * reference.num_records // num_bytes
        if end_record == first_record:
            continue
        if end - first >= min_bytes:
            yield share, (host, end - first, evolve(reference, records=(first_record, end_record)))
            first, first_record = end, end_record
        # Else the block, or what is left of it, begins just before this share.
        share = next_share
    if first:
        reference = evolve(reference, records=(first_record, None))
    yield share, (host, num_bytes - first, reference)


def _preferred(group: Sequence[Located]) -> tuple[str, ...]:
    bytes_of = Counter[str]()
    for host, num_bytes, _reference in group:
        bytes_of[host] += num_bytes
    host = max(bytes_of, key=bytes_of.__getitem__)
    return (host,) if host else ()
