"""Program: four installed receivers in a StreamingContext, then in one query; then queries that are stopped.

usage: both_engines.py FOLDER PORT

Prints lines of JSON: the records of each engine by receiver; the seconds after which no process of a source was left
after ``spark.stop()`` with an idle query; the processes of a query that waits for Ctrl-C.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from functools import reduce
from pathlib import Path
from typing import Any

import psutil
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession, functions as F

from penstock import StreamingContext

DEADLINE_S = 120.0


def main() -> None:
    """Run all of it."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    (folder / "log").write_text("first\nsecond\n")
    numbers = {"shape": "numbers", "total": 50, "rate": 0}
    receivers: dict[str, dict[str, Any]] = {
        "socket": {"host": "127.0.0.1", "port": port},
        "synthetic": numbers,
        "file": {"path": str(folder / "log")},
        "ticker": {"per_second": 100, "total": 20},
    }
    counts = {"socket": 3, "synthetic": 50, "file": 2, "ticker": 20}
    context = new_context()
    print(json.dumps(in_streaming_context(context, receivers, counts)), flush=True)
    spark = SparkSession.builder.getOrCreate()
    print(json.dumps(in_query(spark, folder / "query", receivers, counts)), flush=True)
    new_context()
    query = start(SparkSession.builder.getOrCreate(), folder / "interrupted", "synthetic", numbers)
    arguments = (threading.get_ident(), json.dumps([source.pid for source in sources()]))
    threading.Thread(target=print_when_waiting, args=arguments, daemon=True).start()
    query.awaitTermination()


def print_when_waiting(thread: int, line: str) -> None:
    """Print a line when a thread reads the JVM's answer to ``awaitTermination``: then Ctrl-C ends the program.

    PySpark's handler of Ctrl-C calls the JVM over the connection of the thread that it interrupts. While that thread
    reads an answer, the call fails. Between a command and the read of its answer, the handler itself would wait for the
    answer to ``awaitTermination``.
    """
    wait_for(lambda: {"readinto", "awaitTermination"} <= functions(thread))
    print(line, flush=True)


def functions(thread: int) -> set[str]:
    """The names of the functions that a thread runs."""
    return {frame.f_code.co_name for frame, _line in traceback.walk_stack(sys._current_frames()[thread])}


def new_context() -> SparkContext:
    """A SparkContext with room for the receivers and a batch; plans of queries are not compiled."""
    conf = SparkConf().setMaster("local[5]").setAppName("both engines").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false").set("spark.python.unix.domain.socket.enabled", "true")
    conf.set("spark.sql.codegen.wholeStage", "false").set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    context = SparkContext(conf=conf)
    context.setLogLevel("OFF")
    return context


def in_streaming_context(
    context: SparkContext, receivers: dict[str, dict[str, Any]], counts: dict[str, int]
) -> dict[str, list[str]]:
    """What each receiver stores in a StreamingContext."""
    ssc = StreamingContext(context, 0.5)
    found: dict[str, list[str]] = {name: [] for name in receivers}
    for name, options in receivers.items():
        records = found[name]
        ssc.receiverStream(name, **options).foreachRDD(lambda rdd, records=records: records.extend(rdd.collect()))
    ssc.start()
    wait_for(lambda: all(len(found[name]) >= counts[name] for name in counts))
    ssc.stop(stopSparkContext=False)
    return {name: [str(record) for record in records] for name, records in found.items()}


def in_query(
    spark: SparkSession, folder: Path, receivers: dict[str, dict[str, Any]], counts: dict[str, int]
) -> dict[str, list[str]]:
    """What each receiver stores below one query with a source for each, which is ended by the end of its session."""
    frames = [
        load(spark, folder / name, name, options).select(F.lit(name).alias("name"), "value")
        for name, options in receivers.items()
    ]
    found: dict[str, list[str]] = {name: [] for name in receivers}

    def take(batch: DataFrame, _batch_id: int) -> None:
        for row in batch.collect():
            found[row.name].append(row.value)

    query = reduce(DataFrame.union, frames).writeStream.foreachBatch(take).start()
    wait_for(lambda: query.exception() or all(len(found[name]) >= counts[name] for name in counts))
    if error := query.exception():
        raise error
    spark.stop()
    print(json.dumps(seconds_until_no_source()), flush=True)
    return found


def load(spark: SparkSession, blocks: Path, receiver: str, options: dict[str, Any]) -> DataFrame:
    """The source of a receiver."""
    reader = spark.readStream.format("penstock").option("receiver", receiver).option("blocks", str(blocks))
    return reader.options(**{f"receiver.{name}": value for name, value in options.items()}).load()


def start(spark: SparkSession, blocks: Path, receiver: str, options: dict[str, Any]) -> Any:
    """Start a query that does nothing with its rows; return when it has some."""
    query = load(spark, blocks, receiver, options).writeStream.format("noop").start()
    wait_for(lambda: query.exception() or any(each["numInputRows"] for each in query.recentProgress))
    return query


def sources() -> list[psutil.Process]:
    """The processes in which Spark keeps sources."""
    found = []
    for each in psutil.Process().children(recursive=True):
        try:
            if "python_streaming_source_runner" in " ".join(each.cmdline()):
                found.append(each)
        except psutil.Error:
            continue
    return found


def seconds_until_no_source() -> float:
    """Wait until no source runs; return how long that took."""
    began = time.monotonic()
    wait_for(lambda: not sources())
    return round(time.monotonic() - began, 3)


def wait_for(condition: Any) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: it never did.
    """
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the program waits for something that does not come")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
