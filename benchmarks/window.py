"""Compare a window of sixty slides without an inverse function in Penstock and in PySpark, on the same data.

    python benchmarks/window.py [penstock|pyspark] [KEYS_PER_BATCH]

Each batch has KEYS_PER_BATCH keys drawn from twice as many; every slide reduces the window by key and adds up the
values. It prints the milliseconds that the job of a full window takes, the CPU time of a slide in the driver, Spark and
its Python workers together, and whether the sums are right. Without the first argument both run one after the other,
each in its own process.
"""

from __future__ import annotations

import contextlib
import operator
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyspark import RDD, SparkConf, SparkContext

SLIDES, BATCHES, INTERVAL_S = 60, 75, 0.25


def run(engine: str, keys: int) -> None:
    """Run one engine and print a line."""
    if engine == "penstock":
        from penstock import StreamingContext
    else:
        from pyspark.streaming import StreamingContext  # type: ignore[assignment]
    conf = SparkConf().setMaster("local[2]").setAppName("window").set("spark.ui.enabled", "false")
    conf.set("spark.python.unix.domain.socket.enabled", "true")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    ssc = StreamingContext(sc, INTERVAL_S)
    chance = random.Random(7)
    data = [[(chance.randrange(2 * keys), 1) for _ in range(keys)] for _ in range(BATCHES)]
    batches = [sc.parallelize(batch, 2) for batch in data]
    took_ms: list[float] = []
    sums: list[int] = []

    cpu_s: list[float] = []

    def look(rdd: RDD[Any]) -> None:
        """Time the job."""
        cpu_s.append(cpu_of_all_s())
        before = time.perf_counter()
        sums.append(rdd.map(operator.itemgetter(1)).sum())
        took_ms.append((time.perf_counter() - before) * 1000)

    window_s = SLIDES * INTERVAL_S
    ssc.queueStream(batches).reduceByKeyAndWindow(operator.add, None, window_s, INTERVAL_S).foreachRDD(look)
    ssc.start()
    while len(took_ms) < BATCHES:
        ssc.awaitTerminationOrTimeout(0.5)
    ssc.stop(stopGraceFully=False)
    expected = [sum(map(len, data[max(0, n + 1 - SLIDES) : n + 1])) for n in range(BATCHES)]
    full = sorted(took_ms[SLIDES:BATCHES])
    cpu_ms = (cpu_s[BATCHES - 1] - cpu_s[SLIDES]) / (BATCHES - 1 - SLIDES) * 1000
    print(
        f"{engine:10} {keys:7,} keys a batch, {SLIDES} slides: job p50 {statistics.median(full):7.0f} ms, "
        f"longest {full[-1]:7.0f} ms, CPU {cpu_ms:7.0f} ms a slide, "
        f"sums {'right' if sums[:BATCHES] == expected else 'WRONG'}"
    )


def cpu_of_all_s() -> float:
    """CPU seconds of this process and all below it, those that have ended included."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    total = 0
    for pid in used:
        above = pid
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        total += used[pid] if above else 0
    return total / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run what the arguments say."""
    keys = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    if len(sys.argv) > 1:
        run(sys.argv[1], keys)
        return
    for engine in ("pyspark", "penstock"):
        subprocess.run([sys.executable, "-W", "ignore", __file__, engine, str(keys)], check=True)


if __name__ == "__main__":
    main()
