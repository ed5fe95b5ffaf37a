"""``Backlog``: the size of each host's unprocessed blocks, compared with a limit.

Reports when receivers should pause and resume, but pauses none itself. ``add`` is called on the endpoint's threads,
``processed`` on the generator's loop.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable

from penstock.blocks.block import StoredBlock
from penstock.conf_values import SizeLimit

# Receivers resume below this fraction of the limit. At the limit itself, they would pause and resume with every block.
_LOW = 0.8


class Backlog:
    """Counts the stored bytes that no batch has processed, per host. The receiver write-ahead log counts as a host.

    ``on_change`` gets a host, its backlog and limit in bytes, and whether the backlog exceeds the limit.
    """

    def __init__(self, limit: SizeLimit, on_change: Callable[[str, int, int, bool], None]) -> None:
        self._limit = limit
        self._on_change = on_change
        # Host, size and executor of each block, by id.
        self._blocks: dict[str, tuple[str, int, str]] = {}
        self._bytes: Counter[str] = Counter()
        self._disks: dict[str, int] = {}
        self._full: set[str] = set()
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """The backlog of all hosts in bytes."""
        with self._lock:
            return self._bytes.total()

    @property
    def is_full(self) -> bool:
        """Whether the backlog of a host exceeds its limit."""
        with self._lock:
            return bool(self._full)

    def set_disk(self, host: str, num_bytes: int) -> None:
        """Note the size of the disk that a host stores blocks on; 0 when it is unknown."""
        with self._lock:
            self._disks[host] = num_bytes

    @property
    def by_executor(self) -> dict[str, int]:
        """The backlog in bytes by executor id, without blocks in the write-ahead log, which belong to no executor."""
        totals = Counter[str]()
        with self._lock:
            for _host, num_bytes, executor_id in self._blocks.values():
                totals[executor_id] += num_bytes
        totals.pop("", None)
        return dict(totals)

    def add(self, host: str, blocks: Iterable[StoredBlock], executor_id: str = "") -> None:
        """Count stored blocks of a host once, and of the executor that stores them, if any."""
        with self._lock:
            for block in blocks:
                if block.block_id not in self._blocks:
                    self._blocks[block.block_id] = host, block.num_bytes, executor_id
                    self._bytes[host] += block.num_bytes
        self._report({host})

    def processed(self, blocks: Iterable[StoredBlock]) -> None:
        """Stop counting blocks: their batch is complete."""
        with self._lock:
            gone = [self._blocks.pop(block.block_id, ("", 0, "")) for block in blocks]
            for host, num_bytes, _executor_id in gone:
                self._bytes[host] -= num_bytes
        self._report({host for host, _, _ in gone})

    def _report(self, hosts: Iterable[str]) -> None:
        changes = []
        with self._lock:
            for host in hosts:
                limit = self._limit.of(self._disks.get(host, 0))
                num_bytes = self._bytes[host]
                was_full = host in self._full
                is_full = limit is not None and num_bytes > (limit * _LOW if was_full else limit)
                if is_full != was_full:
                    self._full ^= {host}
                    changes.append((host, num_bytes, limit or 0, is_full))
        for change in changes:
            self._on_change(*change)
