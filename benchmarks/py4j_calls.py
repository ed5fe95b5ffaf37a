"""Count the Py4J calls that a batch makes, and print them as a table.

usage: py4j_calls.py [BATCHES] [rows | dataframe]     by default: 20 batches, rows

Word count over one receiver, on `local[2]`, 1,000 lines per batch, one batch at a time under the manual clock: rows
(`flatMap · map · reduceByKey`, `collect` in `foreachRDD`) or DataFrames (`selectExpr · groupBy · agg`, `collect` in
`foreachDataFrame`). A call is a round trip between Python and the JVM. The first batches,
which fill the caches, are not counted. The program uses the public API only: to compare two versions, run this file
with the Python of each.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from operator import add
from typing import Any

from py4j.clientserver import ClientServerConnection
from pyspark import SparkConf, SparkContext

from penstock import StreamingContext, ThreadReceiver
from penstock_testing import ManualClock

LINES, SETTLED = 1000, 5


class Lines(ThreadReceiver[str]):
    """Stores the same lines once per batch."""

    def receive(self) -> None:
        """Store one block at a time, after the previous batch."""
        lines = [f"{n % 97} {n % 13} word and {n % 7}" for n in range(LINES)]
        while not self.isStopped():
            self.store_all(lines)
            self.wait(0.2)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the calls by thread and command."""
    calls: Counter[str] = Counter()
    send = ClientServerConnection.send_command

    def sending(connection: Any, command: str) -> Any:
        thread = threading.current_thread().name
        if thread.startswith(("JobGenerator", "streaming-job")):
            calls[f"{thread.split('-executor')[0]}: {describe(command)}"] += 1
        return send(connection, command)

    ClientServerConnection.send_command = sending
    try:
        yield calls
    finally:
        ClientServerConnection.send_command = send


def describe(command: str) -> str:
    """Describe a command of Py4J's protocol."""
    parts = command.splitlines()
    kinds = {"c": "call", "i": "create", "r": "look up", "m": "release", "a": "array", "l": "list", "j": "view"}
    if parts[0] == "a":
        return "read an array"
    name = parts[2] if parts[0] == "c" else parts[1] if parts[0] == "i" else parts[2] if len(parts) > 2 else ""
    return f"{kinds.get(parts[0], parts[0])} {name}"


def main(batches: int, api: str) -> None:
    """Run the batches and print the table."""
    conf = SparkConf().setMaster("local[2]").setAppName("py4j calls").set("spark.ui.enabled", "false")
    conf.set("spark.sql.shuffle.partitions", "1")
    sc = SparkContext(conf=conf.set("spark.python.unix.domain.socket.enabled", "true"))
    sc.setLogLevel("ERROR")
    clock = ManualClock()
    ssc = StreamingContext(sc, 1, clock=clock)
    done = threading.Semaphore(0)
    words: list[int] = []
    took_ms: list[float] = []

    def look(batch: Any) -> None:
        before = time.perf_counter()
        words.append(sum(count for _word, count in batch.collect()))
        took_ms.append((time.perf_counter() - before) * 1000)

    lines = ssc.receiverStream(Lines())
    if api == "dataframe":
        split = lines.toDF().selectExpr("explode(split(value, ' ')) AS word")
        split.groupBy("word").agg({"*": "count"}).foreachDataFrame(look)
    else:
        lines.flatMap(lambda line: line.split(" ")).map(lambda word: (word, 1)).reduceByKey(add).foreachRDD(look)

    class Completed:
        """Reports completed batches."""

        def onBatchCompleted(self, _batchCompleted: Any) -> None:
            """Let the next batch begin."""
            done.release()

    ssc.addStreamingListener(Completed())
    ssc.start()
    totals: Counter[str] = Counter()
    number, deadline = 0, time.monotonic() + 600
    with counted() as calls:
        while number < SETTLED + batches:
            if time.monotonic() > deadline:
                raise TimeoutError("the batches have not ended")
            calls.clear()
            words.clear()
            time.sleep(0.5)  # a block or two
            clock.await_waiters()
            clock.advance(1000)
            if not done.acquire(timeout=300):
                raise TimeoutError("a batch has not ended")
            # A busy machine may have stored no block; an output of DataFrames waits for the first schema.
            if any(words):
                number += 1
                if number > SETTLED:
                    totals.update(calls)
    ssc.stop(stopSparkContext=True)
    print(f"{sum(totals.values()) / batches:.1f} calls per batch")
    print(f"job p50 {statistics.median(took_ms[-batches:]):.1f} ms\n\n| calls per batch | thread and call |\n|---|---|")
    for name, count in totals.most_common():
        print(f"| {count / batches:.1f} | {name} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2] if len(sys.argv) > 2 else "rows")
