"""Run N batches (10,000) of Spark jobs and print the resident memory of the Python driver at intervals.

usage: soak.py [N] [INTERVAL_MS] [conf=value ...]

Each batch reads what a receiver stored, through a shuffle. Memory may grow in the first thousand or two batches, until
everything that is retained for a number of batches has reached that number; after that it must not. If the machine is
too slow for the interval, batches wait and the receiver pauses (`spark.penstock.maxPendingBatches`): the run then only
takes longer.
"""

import os
import sys
import time
from operator import add
from pathlib import Path

from pyspark import SparkConf, SparkContext

from penstock import StreamingContext, StreamingListener
from penstock.launch.java import ensure_java

n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
interval_ms = int(sys.argv[2]) if len(sys.argv) > 2 else 100
EVERY = 1_000


def resident_mb():
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


ensure_java()
conf = SparkConf().setMaster("local[3]").setAppName("soak").set("spark.ui.enabled", "false")
conf.set("spark.python.unix.domain.socket.enabled", "true")
# The JVM's own books of old jobs are short: it is not what is watched here.
conf.set("spark.ui.retainedJobs", "100").set("spark.ui.retainedStages", "100").set("spark.ui.retainedTasks", "1000")
conf.set("spark.penstock.maxPendingBatches", "20")
for pair in sys.argv[3:]:
    conf.set(*pair.split("=", 1))
sc = SparkContext(conf=conf)
sc.setLogLevel("ERROR")
ssc = StreamingContext(sc, interval_ms / 1000)
records = failed = 0
batches = []


class Failures(StreamingListener):
    """Counts failed batches, dropped ones among them."""

    def onBatchCompleted(self, batchCompleted):
        """Count the batch if it failed."""
        global failed
        failed += not batchCompleted.batchInfo.succeeded


def tally(rdd):
    """Count one batch."""
    global records
    records += sum(count for _, count in rdd.collect())
    batches.append(time.monotonic())


lines = ssc.receiverStream("synthetic", rate=1000.0)
lines.map(lambda line: (len(line) % 10, 1)).reduceByKey(add, 2).foreachRDD(tally)
ssc.addStreamingListener(Failures())
ssc.start()
started = time.monotonic()
print(f"{'batches':>8} {'RSS MB':>8} {'s':>7} {'pending':>8}", flush=True)
printed = -1
while len(batches) < n:
    time.sleep(0.05)
    if len(batches) // EVERY > printed:
        printed = len(batches) // EVERY
        pending = len(ssc._engine.scheduler.pending_batches)
        print(f"{len(batches):>8} {resident_mb():>8.1f} {time.monotonic() - started:>7.0f} {pending:>8}", flush=True)
print(f"{len(batches):>8} {resident_mb():>8.1f} {time.monotonic() - started:>7.0f}; {records} records", flush=True)
ssc.stop()
print(f"{failed} failed or dropped", flush=True)
