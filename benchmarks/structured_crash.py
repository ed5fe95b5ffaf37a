"""Kill a streaming query over a Penstock receiver again and again, and count.

usage: python -m benchmarks.structured_crash [--kills 10] [--seed 1]

A source on this machine sends numbered records and waits for their acknowledgements, as in ``crash.py``. A receiver
stores them, and a streaming query writes each batch into a file named by the batch: an idempotent sink. In each batch,
before and after its file is written, there is a time in which the batch is not committed; there the driver's Python
process, its JVM or both are killed (-9), and the program is started again on the same checkpoint.

Every acknowledged record must be in a batch in the end, and a batch that ran twice must have had the same records. A
kill between the store and its acknowledgement makes the source send records again, as it should. The receiver gives
each store a number of its own, so that those records differ from the first ones: whatever was stored once must be in
one batch only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchmarks.crash import jvm_of
from benchmarks.numbered_source import Source

VICTIMS = ("driver", "JVM", "driver and JVM")
# With fewer acknowledged records per kill, the run tests too little.
LEAST_RECORDS = 20
START_S, STOP_S = 180, 120
#: The counts that must be 0.
FAULTS = (
    "lost",
    "stored once, seen twice",
    "stored again, not sent again",
    "batches that differ when run again",
)

RECEIVER = '''
"""Stores what the source sends, then acknowledges it."""

import json
import secrets
import socket

from attrs import frozen

from penstock import ReceiverSpec, ThreadReceiver, hookimpl


@frozen
class Options:
    port: int


class Acknowledging(ThreadReceiver[int]):
    def __init__(self, options):
        self.port = options.port

    def receive(self):
        while not self.isStopped():
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                    stream = connection.makefile("rwb")
                    while not self.isStopped() and (line := stream.readline()):
                        numbers = json.loads(line)
                        if numbers:
                            store = secrets.randbits(31) << 32
                            self.store_all([store | number for number in numbers])
                        stream.write(b"%d\\n" % (numbers[-1] + 1 if numbers else -1))
                        stream.flush()
            except OSError:
                self.wait(0.1)


@hookimpl
def receivers():
    return [ReceiverSpec("acknowledging", Acknowledging, Options, "numbers, acknowledged")]
'''


def install(folder: Path) -> None:
    """Write the plugin with the receiver, as an installed distribution."""
    info = folder / "crash_receiver-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "crash_receiver.py").write_text(RECEIVER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: crash-receiver\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penstock]\nacknowledging = crash_receiver\n")


def program(folder: Path, port: int, seed: int, run: int) -> None:
    """Run the query until it is killed, or until a file named ``stop`` appears and all is read.

    Args:
        folder: of all runs.
        port: the source's.
        seed: of all runs.
        run: number of this run.
    """
    from pyspark.sql import DataFrame, SparkSession

    from penstock_cli.java import ensure_java

    ensure_java()
    rng = random.Random(f"{seed}/{run}")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    source = spark.readStream.format("penstock").schema("value LONG").option("receiver", "acknowledging")
    numbers = source.option("port", port).option("blocks", str(folder / "blocks"))
    numbers = numbers.option("spark.streaming.blockInterval", "50ms")

    def write(batch: DataFrame, batch_id: int) -> None:
        rows = sorted(row.value for row in batch.collect())
        if not rows:
            return
        (folder / "running").write_text(str(batch_id))
        time.sleep(rng.uniform(0.0, 0.3))
        partial = folder / "out" / f".{batch_id}-{run}"
        partial.write_text(json.dumps(rows))
        partial.rename(folder / "out" / f"{batch_id}-{run}")
        time.sleep(rng.uniform(0.0, 0.3))

    query = (
        numbers.load().writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint")).start()
    )
    while not (folder / "stop").exists():
        query.awaitTermination(1)
    query.processAllAvailable()
    query.stop()
    spark.stop()


def launch(folder: Path, port: int, seed: int, run: int) -> subprocess.Popen[bytes]:
    """Launch a run of the program."""
    paths = filter(None, [os.environ.get("PYTHONPATH")])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder / "plugin"), str(Path(__file__).parents[1]), *paths]),
        "PYSPARK_PYTHON": sys.executable,
    }
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.structured_crash",
                "--program",
                str(folder),
                "--port",
                str(port),
                "--seed",
                str(seed),
                "--run",
                str(run),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
        )


def await_batch(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until this run of the program has started a batch."""
    before = (folder / "running").stat().st_mtime_ns if (folder / "running").exists() else 0
    deadline = time.monotonic() + START_S
    while not (folder / "running").exists() or (folder / "running").stat().st_mtime_ns == before:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise SystemExit(f"FAILED: the program runs no batch; its log is {folder / 'log'}")
        time.sleep(0.01)


def kill(victim: str, folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Kill the program's processes; return when the program has ended."""
    jvm = jvm_of(process)
    if "JVM" in victim:
        os.kill(jvm, signal.SIGKILL)
    if "driver" in victim:
        process.kill()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def check(folder: Path, acknowledged: Collection[int], resent: Collection[int]) -> dict[str, Any]:
    """Compare the sink with the acknowledged numbers.

    Args:
        folder: folder of the runs; ``out/BATCH-RUN`` contains the records of a batch.
        acknowledged: the numbers that were acknowledged.
        resent: the numbers that were sent more than once.

    Returns:
        Counts by name.
    """
    batches: dict[int, list[int]] = {}
    differ = 0
    paths = sorted((folder / "out").glob("[0-9]*"), key=lambda path: int(path.name.split("-")[1]))
    for path in paths:
        batch_id, rows = int(path.name.split("-")[0]), json.loads(path.read_text())
        differ += batch_id in batches and batches[batch_id] != rows
        batches[batch_id] = rows
    stored = Counter(record for rows in batches.values() for record in rows)
    # Without the number of the store.
    seen = Counter(record & 0xFFFFFFFF for record in stored)
    return {
        "acknowledged records": len(acknowledged),
        "lost": sum(number not in seen for number in acknowledged),
        "stored once, seen twice": sum(count > 1 for count in stored.values()),
        "sent again": len(resent),
        "sent again and stored again": sum(count > 1 for count in seen.values()),
        "stored again, not sent again": sum(count > 1 and number not in resent for number, count in seen.items()),
        "batches": len(batches),
        "batches that ran again": len(paths) - len(batches),
        "batches that differ when run again": differ,
    }


def main() -> None:
    """Kill, start, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10, help="how often the program is killed")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--program", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        program(options.program, options.port, options.seed, options.run)
        return
    rng = random.Random(options.seed)
    uncommitted = 0
    folder = Path(tempfile.mkdtemp(prefix="penstock-structured-crash-"))
    (folder / "out").mkdir()
    install(folder / "plugin")
    source = Source(options.seed)
    port = source.port
    began = time.monotonic()
    for number in range(1, options.kills + 1):
        process = launch(folder, port, options.seed, number)
        await_batch(folder, process)
        source.await_acknowledgement()
        time.sleep(rng.uniform(0.0, 2.0))
        # Then kill it during a batch, between its start and its commit or a little later.
        await_batch(folder, process)
        after_s, victim = rng.uniform(0.0, 0.5), rng.choice(VICTIMS)
        time.sleep(after_s)
        kill(victim, folder, process)
        batch = (folder / "running").read_text()
        is_committed = (folder / "checkpoint" / "commits" / batch).exists()
        uncommitted += not is_committed
        state = "committed" if is_committed else "not committed"
        print(
            f"kill {number} of {options.kills}: the {victim}, {after_s:.2f} s into batch {batch}, {state}", flush=True
        )
    process = launch(folder, port, options.seed, options.kills + 1)
    await_batch(folder, process)
    source.await_acknowledgement()
    source.paused.set()
    time.sleep(1)
    (folder / "stop").touch()
    try:
        code = process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise SystemExit(f"FAILED: the program does not stop; its log is {folder / 'log'}") from None
    results = {"kills": options.kills, "seed": options.seed, "exit code of the last run": code}
    results["kills with a batch uncommitted"] = uncommitted
    results |= check(folder, source.acknowledged, source.resent)
    results["seconds"] = round(time.monotonic() - began)
    for name, value in results.items():
        print(f"{name}: {value}")
    few = len(source.acknowledged) < LEAST_RECORDS * max(options.kills, 1)
    faulty = code != 0 or any(results[name] for name in FAULTS)
    if few or faulty:
        raise SystemExit(f"FAILED; all of it is in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
