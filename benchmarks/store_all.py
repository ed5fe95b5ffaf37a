"""Measures how fast `store_all` builds blocks of small records, and how much memory large records take. Without Spark.

usage: store_all.py [RECORDS] [LARGE]     1,000,000 small records of each kind, 400 of 1 MB

Blocks are written, reported to a driver that accepts them at once, and deleted. Rates are of one core's processor time,
the best of five; memory is the process's peak.
"""

from __future__ import annotations

import itertools
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from penstock import Block, Receiver, StoredBlock
from penstock.blocks.received_block_handler import LocalBlockHandler
from penstock.conf import Settings
from penstock.receive.messages import RegisterReceiver, ReportError
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.wire.json_codec import Reply

R = TypeVar("R", bound=Reply)
records = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
large = int(sys.argv[2]) if len(sys.argv) > 2 else 400
LINES = ["x" * 100 + str(number) for number in range(1000)]


class Driver:
    """Accepts everything."""

    def ask(self, message: object, reply_kind: type[R]) -> R:
        """Accept the receiver and its blocks; show errors."""
        if isinstance(message, ReportError):
            print(message)
        return reply_kind()


class Blocks(LocalBlockHandler):
    """Writes each block and deletes it at once."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.stored: list[StoredBlock] = []

    def store(self, block: Block) -> StoredBlock:
        """Write and delete a block."""
        stored = super().store(block)
        self.delete([block.block_id])
        self.stored.append(stored)
        return stored


class Silent(Receiver[Any]):
    """Receives nothing by itself."""

    def onStart(self) -> None:
        """Nothing to start."""


def store(values: Iterable[Any], folder: Path) -> tuple[float, list[StoredBlock]]:
    """Store values; return the seconds of processor time that it took, and the blocks."""
    blocks, receiver = Blocks(folder), Silent()
    supervisor = ReceiverSupervisor(receiver, RegisterReceiver(0, 1, "Silent", 0), Settings.parse({}), Driver(), blocks)
    supervisor.start()
    began = time.process_time()
    receiver.store_all(values)
    took_s = time.process_time() - began
    supervisor.stop("done")
    return took_s, blocks.stored


def peak_mb() -> float:
    """Peak memory of this process, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def megabytes() -> Iterator[bytes]:
    """Records of 1 MB, each created on demand."""
    return (b"%08d" % number * (1 << 17) for number in range(large))


KINDS: dict[str, Callable[[], Iterable[Any]]] = {
    "lines of 100 bytes, a list": lambda: LINES * (records // 1000),
    "the same, an iterator": lambda: itertools.chain.from_iterable(itertools.repeat(LINES, records // 1000)),
    "integers, a range": lambda: range(records),
    "pairs, pickled": lambda: [(number, str(number)) for number in range(records)],
}

with tempfile.TemporaryDirectory() as name:
    folder, before = Path(name), peak_mb()
    _took_s, blocks = store(megabytes(), folder)
    print(
        f"{large} records of 1 MB: {len(blocks)} blocks, the largest of "
        f"{max(block.num_bytes for block in blocks) >> 20} MB; "
        f"peak memory {before:.0f} MB before, {peak_mb():.0f} MB after"
    )
    for kind, make in KINDS.items():
        took_s = min(store(make(), folder)[0] for _ in range(5))
        print(f"{records / took_s / 1e6:>8.2f} M records/s: {kind}")
