"""``UnreadBlocks``: how much stored data no batch has processed yet, on each host, and when that is too much.

Owns the sizes of those blocks. The block log counts as one host. Never pauses a receiver itself: it says when to.
``add`` is called on the endpoint's threads, ``processed`` on the generator's loop; short, under one lock.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable

from penstock.blocks.block import StoredBlock
from penstock.conf_values import SizeLimit

# Intake goes on below this part of the limit: it must not flutter around it.
_LOW = 0.8


class UnreadBlocks:
    """Bound what waits.

    Args:
        limit: of one host: a size, or a share of its disk.
        on_change: is told, when it becomes too much and when it is so no more: the host, bytes there, the limit in
            bytes, and whether it is too much.
    """

    def __init__(self, limit: SizeLimit, on_change: Callable[[str, int, int, bool], None]) -> None:
        self._limit, self._on_change = limit, on_change
        # Where each block is, and how big.
        self._blocks: dict[str, tuple[str, int]] = {}
        self._bytes: Counter[str] = Counter()
        self._disks: dict[str, int] = {}
        self._full: set[str] = set()
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """How much there is, on all hosts."""
        with self._lock:
            return self._bytes.total()

    @property
    def is_full(self) -> bool:
        """Whether it is too much on some host."""
        with self._lock:
            return bool(self._full)

    def set_disk(self, host: str, num_bytes: int) -> None:
        """Note how large the disk is that a host keeps blocks on; 0 when that is not known."""
        with self._lock:
            self._disks[host] = num_bytes

    def add(self, host: str, blocks: Iterable[StoredBlock]) -> None:
        """Count blocks that were stored. One that is counted already is not counted again."""
        with self._lock:
            for block in blocks:
                if block.block_id not in self._blocks:
                    self._blocks[block.block_id] = host, block.num_bytes
                    self._bytes[host] += block.num_bytes
            limit = self._limit.of(self._disks.get(host, 0))
            became_full = limit is not None and self._bytes[host] > limit and host not in self._full
            if became_full:
                self._full.add(host)
            now = self._bytes[host]
        if became_full and limit is not None:
            self._on_change(host, now, limit, True)

    def processed(self, blocks: Iterable[StoredBlock]) -> None:
        """Count blocks no more: their batch is complete."""
        with self._lock:
            for block in blocks:
                host, num_bytes = self._blocks.pop(block.block_id, ("", 0))
                self._bytes[host] -= num_bytes
            relieved = []
            for host in list(self._full):
                limit = self._limit.of(self._disks.get(host, 0))
                if limit is None or self._bytes[host] <= limit * _LOW:
                    self._full.discard(host)
                    relieved.append((host, self._bytes[host], limit or 0))
        for each in relieved:
            self._on_change(*each, False)
