"""What a batch of 1,000 records costs with 1,000 and with 1,000,000 keys: mapWithState beside updateStateByKey.

    python benchmarks/keyed_state.py [OPERATOR KEYS]

OPERATOR is mapWithState, updateStateByKey, or pyspark for PySpark's updateStateByKey. Printed are the milliseconds that
the batch's job takes once the states are there, and whether the counts are right. Without arguments all run, one after
the other, each in a process of its own.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from pyspark import RDD, SparkConf, SparkContext

RECORDS, BATCHES, INTERVAL_S = 1_000, 32, 0.5
OPERATORS = ("mapWithState", "updateStateByKey", "pyspark")


def add_up(values: list[int], total: int | None) -> int:
    """The function of updateStateByKey."""
    return sum(values) + (total or 0)


def add_one(key: int, value: int | None, state: Any) -> tuple[int, int]:
    """The function of mapWithState."""
    state.update((state.getOption() or 0) + (value or 0))
    return key, state.get()


def run(operator: str, keys: int) -> None:
    """Run one operator and print a line."""
    if operator == "pyspark":
        from pyspark.streaming import StreamingContext
    else:
        from penstock import StreamingContext  # type: ignore[assignment]
    conf = SparkConf().setMaster("local[2]").setAppName("keyed state").set("spark.ui.enabled", "false")
    conf.set("spark.python.unix.domain.socket.enabled", "true").set("spark.driver.memory", "2g")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    ssc = StreamingContext(sc, INTERVAL_S)
    chance = random.Random(7)
    with tempfile.TemporaryDirectory() as directory:
        ssc.checkpoint(directory)
        data = [[(chance.randrange(keys), 1) for _ in range(RECORDS)] for _ in range(BATCHES)]
        stream: Any = ssc.queueStream([sc.parallelize(batch, 2) for batch in data])
        initial = sc.range(keys, numSlices=2).map(lambda key: (key, 0))
        if operator == "mapWithState":
            from penstock import StateSpec

            counts = stream.mapWithState(StateSpec.function(add_one).initialState(initial))
        else:
            counts = stream.updateStateByKey(add_up, initialRDD=initial)
        took_ms: list[float] = []
        largest: list[int] = []

        def look(rdd: RDD[Any]) -> None:
            """Time the job."""
            before = time.perf_counter()
            largest.append(rdd.map(lambda pair: pair[1]).fold(0, max))
            took_ms.append((time.perf_counter() - before) * 1000)

        counts.foreachRDD(look)
        ssc.start()
        while len(took_ms) < BATCHES:
            ssc.awaitTerminationOrTimeout(0.5)
        ssc.stop()
    totals: dict[int, int] = {}
    expected = []
    for batch in data:
        for key, value in batch:
            totals[key] = totals.get(key, 0) + value
        seen = {key for key, _ in batch} if operator == "mapWithState" else totals
        expected.append(max(totals[key] for key in seen))
    later = sorted(took_ms[2:BATCHES])
    print(
        f"{operator:16} {keys:9,} keys: job p50 {statistics.median(later):6.0f} ms, longest {later[-1]:6.0f} ms, "
        f"counts {'right' if largest[:BATCHES] == expected else 'WRONG'}"
    )


def main() -> None:
    """Run what the arguments say."""
    if len(sys.argv) > 2:
        run(sys.argv[1], int(sys.argv[2]))
        return
    for operator in OPERATORS:
        for keys in (1_000, 1_000_000):
            subprocess.run([sys.executable, "-W", "ignore", __file__, operator, str(keys)], check=True)


if __name__ == "__main__":
    main()
