"""Rate control of a running program: ``python benchmarks/rate_live.py ENGINE [--seconds 40]``.

ENGINE is ``pid`` or ``model`` (Penstock's estimators) or ``pyspark``: the backpressure of pyspark.streaming, which
needs ``--initial-rate``, because it takes everything that comes until the first batch has ended.

A server on this machine sends an endless stream of lines. The job of a batch takes 50 ms and 1 s for every 20,000
lines; after a third of the run this drops to 10,000 lines, and after two thirds it is 20,000 again.

For each third it prints how many batches were due, how many of them never came, in which batch it settled (from then
on every batch that was due came, has records and waits for less than one interval), the longest wait after that, the
share of the capacity that was used in the last half of the third (the same half for all engines), and every batch.
"""

from __future__ import annotations

import argparse
import socket
import sys
import threading
import time
from typing import Any

INTERVAL_S = 1.0
CAPACITY = 20_000.0
FIXED_S = 0.05
LINE = b"x" * 20 + b"\n"


class Server:
    """Sends lines to every client, as fast as it reads."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _address = self._socket.accept()
            threading.Thread(target=self._send, args=(connection,), daemon=True).start()

    @staticmethod
    def _send(connection: socket.socket) -> None:
        try:
            while True:
                connection.sendall(LINE * 1000)
        except OSError:
            pass


def capacity(elapsed_s: float, seconds: float) -> float:
    """Records/s of the job, beyond what a batch costs anyway."""
    return CAPACITY / 2 if seconds / 3 <= elapsed_s < 2 * seconds / 3 else CAPACITY


def run(engine: str, seconds: float, initial_rate: float | None) -> list[dict[str, float]]:
    """Run the program; return due time, records, wait and duration of every batch."""
    from pyspark import RDD, SparkConf, SparkContext

    conf = SparkConf().setMaster("local[3]").setAppName("rate").set("spark.ui.enabled", "false")
    conf.set("spark.python.unix.domain.socket.enabled", "true").set("spark.ui.showConsoleProgress", "false")
    conf.set("spark.streaming.backpressure.enabled", "true")
    conf.set("spark.streaming.backpressure.rateEstimator", "pid" if engine == "pyspark" else engine)
    if initial_rate is not None:
        conf.set("spark.streaming.backpressure.initialRate", str(int(initial_rate)))
    sc = SparkContext(conf=conf)
    sc.setLogLevel("OFF")
    sc.parallelize(range(2), 2).map(lambda x: x).count()  # a first worker
    module = __import__("pyspark.streaming" if engine == "pyspark" else "penstock", fromlist=["StreamingContext"])
    ssc = module.StreamingContext(sc, INTERVAL_S)
    batches: list[dict[str, float]] = []
    began = time.time()

    def work(batch_time: Any, rdd: RDD[str]) -> None:
        started = time.time()
        count = rdd.count()
        due = batch_time.timestamp()
        # The counting itself is part of the fixed cost of a batch.
        left_s = max(FIXED_S - (time.time() - started), 0.0) + count / capacity(started - began, seconds)
        time.sleep(left_s)
        batches.append(
            {"due": due - began, "records": count, "waited": max(started - due, 0.0), "took": time.time() - started}
        )

    ssc.socketTextStream("127.0.0.1", Server().port).foreachRDD(work)
    ssc.start()
    # The last batches are due shortly before the end, and need time to run.
    time.sleep(seconds + 3 * INTERVAL_S)
    ssc.stop(stopSparkContext=False, stopGraceFully=False)
    sc.stop()
    return batches


def report(batches: list[dict[str, float]], seconds: float) -> None:
    """Print the results of each third."""
    first = min((batch["due"] for batch in batches), default=0.0)
    came = {round((batch["due"] - first) / INTERVAL_S): batch for batch in batches}
    due = range(int((seconds - first) / INTERVAL_S) + 1)
    for number, name in enumerate(("20,000/s", "10,000/s", "20,000/s again")):
        begin, end = seconds * number / 3, seconds * (number + 1) / 3
        part = [came.get(tick) for tick in due if begin <= first + tick * INTERVAL_S < end]
        bad = [
            index
            for index, batch in enumerate(part)
            if batch is None or not batch["records"] or batch["waited"] >= INTERVAL_S
        ]
        settled = bad[-1] + 1 if bad else 0
        half = part[len(part) // 2 :]
        records = sum(batch["records"] for batch in half if batch is not None)
        used = records / (capacity(begin, seconds) * (INTERVAL_S - FIXED_S) * len(half)) if half else 0.0
        print(
            f"{name}: {len(part)} batches due, {part.count(None)} missing, "
            f"settled in batch {settled + 1 if settled < len(part) else 'none'}, "
            f"longest wait {max((batch['waited'] for batch in part if batch), default=0):.2f} s, after settling "
            f"{max((batch['waited'] for batch in part[settled:] if batch), default=0):.2f} s, "
            f"capacity used in the last half {used:.0%}"
        )
    for batch in batches:
        print("  {due:5.1f} s  {records:7.0f} records  waited {waited:.2f} s  took {took:.2f} s".format(**batch))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=("pid", "model", "pyspark"))
    parser.add_argument("--seconds", type=float, default=60.0, help="of the run")
    parser.add_argument("--initial-rate", type=float, help="records/s; the engine's own choice by default")
    options = parser.parse_args()
    print(f"{options.engine}, initial rate {options.initial_rate or 'its own'}")
    report(run(options.engine, options.seconds, options.initial_rate), options.seconds)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
