"""Kills a process that writes batches into a table, again and again, and compares the table with the batches.

Run: python -m plugins.tables.tests.killed_writers delta --kills 100 --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from typing import Any

import pyarrow as pa
from plugins.tables.tests.kind_of_table import KINDS, Kind, task
from plugins.tables.tests.kinds_with_servers import POSTGRESQL, kind_of_table
from plugins.tables.tests.writer_progress import Phase, Progress

from penstock_tables.batch_identity import BatchId
from penstock_tables.partition_writer import PartitionWriter
from penstock_tables.table_output import TableOutput

SCHEMA = pa.schema([("batch", pa.int64()), ("n", pa.int64())])
ROWS = 20


def write(kind: Kind, progress: Progress, last: int) -> None:
    """Write the batches from the one before the last known to ``last``, as a recovered driver would."""
    output = TableOutput(kind.table, "orders", SCHEMA)
    # A task that commits is in its transaction all the time.
    tasks = Phase.COMMIT if kind.table.commits_in_task else Phase.TASKS
    for number in range(max(progress.batches - 1, 0), last):

        def run(writer: PartitionWriter, number: int = number) -> list[str]:
            progress.phase = tasks
            files = task([(number, n) for n in range(ROWS)])(writer)
            progress.phase = Phase.COMMIT
            return files

        output.write(BatchId("killed", "orders", "run", (number + 1) * 1000), SCHEMA, run)
        progress.phase = Phase.BETWEEN_BATCHES
        progress.batches = number + 1
    progress.phase = Phase.DONE


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


def kills(kind: Kind, count: int, rng: random.Random) -> dict[str, Any]:
    """Kill writers, and return what the table has: batches, rows lost and repeated, kills by what they interrupted."""
    progress = Progress()
    interrupted = Counter[str]()
    while interrupted.total() < count:
        progress.phase = Phase.BETWEEN_BATCHES
        child = in_child(lambda: write(kind, progress, sys.maxsize))
        begun = progress.batches
        # The first batches take longer, for the imports.
        while progress.batches <= begun and os.waitpid(child, os.WNOHANG) == (0, 0):
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.15))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        interrupted[progress.phase.text] += 1
    last = progress.batches + 3
    _, status = os.waitpid(in_child(lambda: write(kind, progress, last)), 0)
    counts = Counter((row["batch"], row["n"]) for row in kind.rows())
    expected = {(number, n) for number in range(last) for n in range(ROWS)}
    return {
        "kills": dict(interrupted),
        "batches": last,
        "rows": len(expected),
        "lost": len(expected - counts.keys()),
        "repeated": sum(count - 1 for count in counts.values()),
        "unknown": len(counts.keys() - expected),
        "failed": status != 0,
    }


def main() -> None:
    """Print a line of JSON for each kind of table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=KINDS, help=", ".join((*KINDS, POSTGRESQL)))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.kinds:
        with kind_of_table(name) as kind:
            result = kills(kind, arguments.kills, random.Random(arguments.seed))
            print(json.dumps({"table": name, **result}), flush=True)


if __name__ == "__main__":
    main()
