"""``pack``: groups the parts of a batch, such as blocks, blocks' pieces or files, into partitions. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Generic, TypeVar

from attrs import frozen

T = TypeVar("T")


@frozen
class Packable(Generic[T]):
    """A part of a batch that is not divided, and its size or its task's cost in bytes.

    A part of another ``host`` or ``share`` begins a new partition; ``host`` is empty if it does not matter.
    """

    value: T
    num_bytes: int
    host: str = ""
    share: int = 0


def pack(parts: Iterable[Packable[T]], *, max_bytes: float = math.inf, min_bytes: int = 0) -> list[tuple[T, ...]]:
    """Group consecutive parts, in order, into partitions, none of them empty.

    A partition ends before a part of another share, before a part with which it would exceed the maximum, and before a
    part on another host, unless the partition is below the minimum. A single part may exceed the maximum.
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
