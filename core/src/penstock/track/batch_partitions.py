"""Packs the blocks of a receiver stream's batch into partitions. Pure functions.

A batch has one partition per free slot, unless they would be smaller than a minimum: a small batch is one partition,
which needs no shuffle at all. Only batches that would exceed the maximum have more, in full waves of slots. A large
block is cut between partitions: with three whole blocks, one of two slots would have twice the work of the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from attrs import evolve, frozen

from penstock.blocks.block import BlockReference
from penstock.blocks.partition_packing import Packable, pack
from penstock.spark.rdds import LocatedPartition
from penstock.storage.uri import is_remote

#: Host, size in bytes and reference of a block.
Located = tuple[str, int, BlockReference]


@frozen
class PartitionBounds:
    """The sizes of a batch's partitions, or their configured number; with 0 the number follows from the sizes."""

    min_bytes: int
    max_bytes: int
    number: int = 0


def how_many(num_bytes: int, slots: int, bounds: PartitionBounds) -> int:
    """Return the number of partitions of a batch with data; ``slots``, at least 1, run no receivers."""
    if bounds.number:
        return bounds.number
    at_least = -(-num_bytes // bounds.max_bytes)
    if at_least > slots:
        return -(-at_least // slots) * slots
    return max(min(slots, num_bytes // bounds.min_bytes), at_least, 1)


def partitions_of(blocks: Sequence[Located], slots: int, bounds: PartitionBounds) -> list[LocatedPartition]:
    """Put blocks into partitions: host by host, and those of a host in the order of their arrival.

    Each partition gets an equal share of the batch. A block in which a share ends is cut there, unless a piece would be
    below the minimum. A partition also ends where the host changes, unless it is below the minimum: then its task
    fetches the blocks of the other host. Elements of a partition are references to blocks.
    """
    hosts = dict[str, int]()
    blocks = sorted(blocks, key=lambda block: hosts.setdefault(block[0], len(hosts)))
    total = sum(num_bytes for _host, num_bytes, _reference in blocks)
    number = how_many(total, slots, bounds)
    # The position in the batch at which each share begins.
    starts = [-(-share * total // number) for share in range(number)]
    positions = accumulate((num_bytes for _host, num_bytes, _reference in blocks), initial=0)
    pieces = (
        Packable(piece, piece[1], piece[0], share)
        for block, position in zip(blocks, positions, strict=False)
        for share, piece in _pieces(block, position, starts, bounds.min_bytes)
    )
    return [
        LocatedPartition(
            tuple(reference for _host, _num_bytes, reference in partition),
            _preferred(partition),
            sum(num_bytes for _host, num_bytes, _reference in partition),
        )
        for partition in pack(pieces, min_bytes=bounds.min_bytes)
    ]


def _pieces(block: Located, position: int, starts: Sequence[int], min_bytes: int) -> Iterator[tuple[int, Located]]:
    """Cut a block, which begins at a position of the batch, at the ends of shares; yield pieces with their shares."""
    host, num_bytes, reference = block
    share = bisect_right(starts, position) - 1
    # The task of each piece of a remote file would read all of it.
    last_share = share if is_remote(reference.path) else bisect_right(starts, position + num_bytes - min_bytes) - 1
    start = start_record = 0
    for next_share in range(share + 1, last_share + 1):
        end = starts[next_share] - position
        end_record = end * reference.num_records // num_bytes
        if end_record == start_record:
            continue
        if end - start >= min_bytes:
            yield share, (host, end - start, evolve(reference, records=(start_record, end_record)))
            start, start_record = end, end_record
        # A piece that would be below the minimum belongs to the next share.
        share = next_share
    if start:
        reference = evolve(reference, records=(start_record, None))
    yield share, (host, num_bytes - start, reference)


def _preferred(partition: Sequence[Located]) -> tuple[str, ...]:
    """The host that stores most of a partition's bytes."""
    bytes_at = Counter[str]()
    for host, num_bytes, _reference in partition:
        bytes_at[host] += num_bytes
    host = max(bytes_at, key=bytes_at.__getitem__)
    return (host,) if host else ()
