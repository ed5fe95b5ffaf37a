"""The program of `make dist-test` and of each cell of `make matrix`.

A receiver, a shuffle, state over a checkpoint, and DataFrames. Needs the core alone. Prints one line of JSON with the
versions that it ran on; any wrong result is an error.
"""

import importlib.util
import json
import platform
import sys
import tempfile
import threading

import pyspark
from pyspark import SparkConf, SparkContext

from penstock import StreamingContext, ThreadReceiver, __version__

RECORDS = 1000


class Numbers(ThreadReceiver[int]):
    """Stores each number once."""

    def receive(self) -> None:
        """Store, then wait for the end."""
        self.store_all([number % 10 for number in range(RECORDS)])
        self.wait(60)


def main() -> None:
    """Run the program.

    Raises:
        SystemExit: a result is wrong or missing.
    """
    has_pandas = importlib.util.find_spec("pandas") is not None
    counts: dict[int, int] = {}
    state: dict[int, int] = {}
    rows, complete = [0], threading.Event()
    # The functions below refer to a lock, which no checkpoint can hold.
    conf = SparkConf().set("spark.penstock.checkpoint.rebuild", "true")
    sc = SparkContext("local[3]", "matrix", conf=conf)
    sc.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as directory:
        ssc = StreamingContext(sc, 1)
        ssc.checkpoint(directory)
        numbers = ssc.receiverStream(Numbers())
        pairs = numbers.map(lambda number: (number, 1))

        def add(rdd: pyspark.RDD[tuple[int, int]]) -> None:
            for number, count in rdd.collect():
                counts[number] = counts.get(number, 0) + count

        def keep(rdd: pyspark.RDD[tuple[int, int]]) -> None:
            state.update(rdd.collect())
            if sum(state.values()) == RECORDS and (rows[0] == RECORDS or not has_pandas):
                complete.set()

        def count_rows(df: pyspark.sql.DataFrame) -> None:
            rows[0] += df.where("value >= 0").count()

        pairs.reduceByKey(lambda a, b: a + b).foreachRDD(add)
        if has_pandas:
            numbers.foreachDataFrame(count_rows)
        pairs.updateStateByKey(lambda new, old: sum(new) + (old or 0)).foreachRDD(keep)
        ssc.start()
        ended = complete.wait(300)
        ssc.stop(stopSparkContext=True, stopGracefully=ended)
    expected = dict.fromkeys(range(10), RECORDS // 10)
    if not (counts == state == expected and rows[0] == (RECORDS if has_pandas else 0)):
        sys.exit(f"wrong or missing: counts {counts}, state {state}, rows {rows[0]}, after the wait: {ended}")
    versions = {"python": platform.python_version(), "pyspark": pyspark.__version__, "penstock": __version__}
    print(json.dumps({**versions, "dataframes": has_pandas}))


if __name__ == "__main__":
    main()
