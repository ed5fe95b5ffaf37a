"""Kills a process that writes batches into a table, again and again, and compares the table with the batches.

Run: python -m plugins.tables.tests.killed_writers delta --kills 100 --seed 1
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from plugins.tables.tests.kind_of_table import KINDS, Kind, task

from penstock_tables.batch_identity import BatchId
from penstock_tables.partition_writer import PartitionWriter
from penstock_tables.table_output import TableOutput

SCHEMA = pa.schema([("batch", pa.int64()), ("n", pa.int64())])
ROWS = 20
# What a writer does now, as its parent sees it: shared bytes.
_IDLE, _TASKS, _COMMIT, _DONE = range(4)


def write(kind: Kind, progress: mmap.mmap, last: int) -> None:
    """Write the batches from the one before the last known to ``last``, as a recovered driver would."""
    output = TableOutput(kind.table, "orders", SCHEMA)
    first = max(int.from_bytes(progress[8:16]) - 1, 0)
    for number in range(first, last):

        def run(writer: PartitionWriter, number: int = number) -> list[str]:
            progress[0] = _TASKS
            files = task([(number, n) for n in range(ROWS)])(writer)
            progress[0] = _COMMIT
            return files

        output.write(BatchId("killed", "orders", "run", (number + 1) * 1000), SCHEMA, run)
        progress[0] = _IDLE
        progress[8:16] = (number + 1).to_bytes(8)
    progress[0] = _DONE


def in_child(work: Any) -> int:
    """Run a function in a process of its own; return its id."""
    if child := os.fork():
        return child
    try:
        work()
    except BaseException as error:
        print(f"writer failed: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def kills(name: str, folder: Path, count: int, rng: random.Random) -> dict[str, Any]:
    """Kill writers, and return what the table has: batches, rows lost and repeated, kills by what they interrupted."""
    progress = mmap.mmap(-1, 16)
    interrupted = Counter[str]()
    kind = Kind(name, folder)
    last = 0
    while sum(interrupted.values()) < count:
        progress[0] = _IDLE
        child = in_child(lambda: write(kind, progress, sys.maxsize))
        begun = int.from_bytes(progress[8:16])
        # The first batches take longer, for the imports.
        while int.from_bytes(progress[8:16]) <= begun and os.waitpid(child, os.WNOHANG) == (0, 0):
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.15))
        doing = progress[0]
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        interrupted[("between batches", "tasks", "commit", "done")[doing]] += 1
        last = int.from_bytes(progress[8:16])
    last += 3
    _, status = os.waitpid(in_child(lambda: write(kind, progress, last)), 0)
    counts = Counter((row["batch"], row["n"]) for row in kind.rows())
    expected = {(number, n) for number in range(last) for n in range(ROWS)}
    return {
        "table": name,
        "kills": dict(interrupted),
        "batches": last,
        "lost": len(expected - counts.keys()),
        "repeated": sum(count - 1 for count in counts.values()),
        "unknown": len(counts.keys() - expected),
        "failed": status != 0,
    }


def main() -> None:
    """Print a line of JSON for each kind of table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=KINDS, help=", ".join(KINDS))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.kinds:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(kills(name, Path(folder), arguments.kills, random.Random(arguments.seed))), flush=True)


if __name__ == "__main__":
    main()
