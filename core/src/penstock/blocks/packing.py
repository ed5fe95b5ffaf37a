"""``pack``: groups the parts of a batch, such as blocks, blocks' pieces or files, into partitions. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Generic, TypeVar

from attrs import frozen

T = TypeVar("T")


@frozen
class Packable(Generic[T]):
    """A part of a batch that is not divided.

    Attributes:
        num_bytes: its size, or what its task costs in bytes.
        host: where it is stored; parts of another host begin a new partition. Empty if the host does not matter.
        share: number of its share of the batch; another share begins a new partition.
    """

    value: T
    num_bytes: int
    host: str = ""
    share: int = 0


def pack(parts: Iterable[Packable[T]], *, max_bytes: float = math.inf, min_bytes: int = 0) -> list[tuple[T, ...]]:
    """Group consecutive parts, in order, into partitions, none of them empty.

    A partition ends before a part of another share, before a part with which it would exceed the maximum, and before a
    part on another host, unless the partition is below the minimum.

    Args:
        parts: the parts of the batch.
        max_bytes: maximum size of a partition with more than one part.
        min_bytes: size below which a partition continues with parts of another host.
    """
    partitions: list[list[T]] = []
    last: Packable[T] | None = None
    filled = 0
    for part in parts:
        if (
            last is None
            or part.share != last.share
            or filled + part.num_bytes > max_bytes
            or (part.host != last.host and filled >= min_bytes)
        ):
            partitions.append([])
            filled = 0
        partitions[-1].append(part.value)
        filled += part.num_bytes
        last = part
    return [tuple(partition) for partition in partitions]
