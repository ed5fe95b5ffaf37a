"""The program of `make dist-test` and of each cell of `make matrix`.

A receiver, a shuffle and a checkpoint; state, DataFrames and a query of Structured Streaming where their plugins are
installed. Needs the core alone. Prints one line of JSON with the versions that it ran on.
Any wrong result is an error.
"""

import importlib.util
import json
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Callable

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

from penstock import ConfigurationError, StreamingContext, ThreadReceiver, __version__

RECORDS = 1000


class Numbers(ThreadReceiver[int]):
    """Stores each number once."""

    def receive(self) -> None:
        """Store, then wait for the end."""
        self.store_all([number % 10 for number in range(RECORDS)])
        self.wait(60)


def queried(spark: SparkSession) -> int:
    """The number of rows of a query over the receiver ``synthetic``. PySpark finds the format by itself."""
    rows, complete = [0], threading.Event()

    def count(batch: DataFrame, _batch_id: int) -> None:
        rows[0] += batch.count()
        if rows[0] >= RECORDS:
            complete.set()

    with tempfile.TemporaryDirectory() as directory:
        source = spark.readStream.format("penstock").option("receiver", "synthetic").option("blocks", directory)
        output = source.option("total", RECORDS).load().writeStream.foreachBatch(count)
        query = output.start()
        complete.wait(300)
        query.stop()
        if error := query.exception():
            sys.exit(f"the query failed: {error}")
    return rows[0]


def total(new: list[int], old: int | None) -> int:
    """The update function of a running sum."""
    return sum(new) + (old or 0)


def require_refusal(plugin: str, operator: Callable[[], object]) -> None:
    """Check that an operator without its plugin says what to install.

    Raises:
        SystemExit: it does not.
    """
    try:
        operator()
    except ConfigurationError as error:
        if str(error).endswith(f": pip install {plugin}"):
            return
        sys.exit(f"without {plugin} an operator says something else: {error}")
    sys.exit(f"an operator works without {plugin}")


def main() -> None:
    """Run the program.

    Raises:
        SystemExit: a result is wrong or missing.
    """
    has_frames, has_source, has_state = (
        importlib.util.find_spec(name) is not None
        for name in ("penstock_dataframes", "pyspark_penstock", "penstock_state")
    )
    # With it Spark looks for data sources.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
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
            state.update(rdd.collect() if has_state else counts)
            if sum(state.values()) == RECORDS and (rows[0] == RECORDS or not has_frames):
                complete.set()

        def count_rows(df: pyspark.sql.DataFrame) -> None:
            rows[0] += df.where("value >= 0").count()

        pairs.reduceByKey(lambda a, b: a + b).foreachRDD(add)
        if has_frames:
            numbers.foreachDataFrame(count_rows)
        else:
            require_refusal("penstock-dataframes", numbers.toDF)
        if has_state:
            pairs.updateStateByKey(total).foreachRDD(keep)
        else:
            require_refusal("penstock-state", lambda: pairs.updateStateByKey(total))
            pairs.foreachRDD(keep)
        ssc.start()
        ended = complete.wait(300)
        ssc.stop(stopSparkContext=False, stopGracefully=ended)
    queried_rows = queried(SparkSession.builder.getOrCreate()) if has_source else RECORDS
    sc.stop()
    expected = dict.fromkeys(range(10), RECORDS // 10)
    if not (counts == state == expected and rows[0] == (RECORDS if has_frames else 0) and queried_rows == RECORDS):
        found = f"counts {counts}, state {state}, rows {rows[0]} and {queried_rows} of the query"
        sys.exit(f"wrong or missing: {found}; after the wait: {ended}")
    versions = {"python": platform.python_version(), "pyspark": pyspark.__version__, "penstock": __version__}
    print(json.dumps({**versions, "dataframes": has_frames, "structured": has_source, "state": has_state}))


if __name__ == "__main__":
    main()
