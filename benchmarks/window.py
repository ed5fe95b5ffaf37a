"""A window of sixty slides without an inverse function: Penstock's beside PySpark's, on the same data.

    python benchmarks/window.py [penstock|pyspark] [KEYS_PER_BATCH]

Each batch has so many keys out of twice as many; every slide reduces the window by key and counts the keys. Printed are
the milliseconds that the job of a full window takes, and whether the sums are right. Without the first argument both
run, one after the other, each in a process of its own.
"""

from __future__ import annotations

import operator
import random
import statistics
import subprocess
import sys
import time
from typing import Any

from pyspark import RDD, SparkConf, SparkContext

SLIDES, BATCHES, INTERVAL_S = 60, 75, 0.25


def run(engine: str, keys: int) -> None:
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

    def look(rdd: RDD[Any]) -> None:
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
    print(
        f"{engine:10} {keys:7,} keys a batch, {SLIDES} slides: job p50 {statistics.median(full):7.0f} ms, "
        f"longest {full[-1]:7.0f} ms, sums {'right' if sums[:BATCHES] == expected else 'WRONG'}"
    )


def main() -> None:
    keys = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    if len(sys.argv) > 1:
        run(sys.argv[1], keys)
        return
    for engine in ("pyspark", "penstock"):
        subprocess.run([sys.executable, "-W", "ignore", __file__, engine, str(keys)], check=True)


if __name__ == "__main__":
    main()
