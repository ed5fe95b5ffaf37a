"""The program of a long run: one receiver, a reduction by key, very many batches. Prints its progress as JSON lines.

usage: python -m benchmarks.programs.many_batches JSON, an object of the arguments of `main`
"""

from __future__ import annotations

import json
import sys
import threading
import time
from operator import add
from typing import Any

from pyspark import RDD, SparkConf, SparkContext

from penstock import StreamingContext, StreamingListener
from penstock_testing import ManualClock

_BATCH_DEADLINE_S = 120.0
_PERIOD_S = 1.0


class Counts(StreamingListener):
    """Counts batches."""

    def __init__(self) -> None:
        self.completed = self.failed = 0
        self.changed = threading.Condition()

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        """Count a batch."""
        with self.changed:
            self.completed += 1
            self.failed += not batchCompleted.batchInfo.succeeded
            self.changed.notify_all()

    def await_count(self, count: int) -> None:
        """Wait until this many have completed.

        Raises:
            TimeoutError: the next one did not complete within two minutes.
        """
        with self.changed:
            if not self.changed.wait_for(lambda: self.completed >= count, _BATCH_DEADLINE_S):
                raise TimeoutError(f"batch {count} did not complete within {_BATCH_DEADLINE_S:g} s")


def main(batches: int, seconds: float, interval_s: float, is_manual: bool, has_ui: bool) -> None:
    """Run until there were this many batches, or for this many seconds, whichever comes first."""
    conf = SparkConf().setMaster("local[3]").setAppName("long run").set("spark.ui.enabled", "false")
    conf.set("spark.python.unix.domain.socket.enabled", "true").set("spark.penstock.maxPendingBatches", "20")
    conf.set("spark.ui.showConsoleProgress", "false")  # a receiver's stage never ends, so the bar would never go
    conf.set("spark.penstock.ui.enabled", str(has_ui).lower()).set("spark.penstock.ui.port", "0")
    # Limit what Spark's own status store retains, even though the UI is off.
    for what in ("Jobs", "Stages", "Tasks"):
        conf.set(f"spark.ui.retained{what}", "100")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    clock = ManualClock(int(time.time()) * 1000) if is_manual else None
    ssc = StreamingContext(sc, interval_s, clock=clock)
    counts, records = Counts(), [0]

    def tally(rdd: RDD[tuple[int, int]]) -> None:
        records[0] += sum(count for _, count in rdd.collect())

    lines = ssc.receiverStream("synthetic", rate=1000.0)
    lines.map(lambda line: (len(line) % 10, 1)).reduceByKey(add).foreachRDD(tally)
    ssc.addStreamingListener(counts)
    ssc.start()
    began = reported = time.monotonic()
    while counts.completed < batches and time.monotonic() - began < seconds:
        if clock:
            count = counts.completed + 1
            clock.await_waiters(timeout_s=_BATCH_DEADLINE_S)
            clock.advance(round(interval_s * 1000))
            counts.await_count(count)
        else:
            ssc.awaitTerminationOrTimeout(0.2)
        if time.monotonic() - reported >= _PERIOD_S:
            reported = time.monotonic()
            print(json.dumps({"batches": counts.completed, "records": records[0]}), flush=True)
    print(json.dumps({"batches": counts.completed, "records": records[0], "failed": counts.failed}), flush=True)
    ssc.stop(stopGracefully=False)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
