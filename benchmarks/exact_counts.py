"""Check that every record is in exactly one batch when receivers store from many threads at once.

usage: exact_counts.py [RECEIVERS] [RECORDS] [THREADS]     10 receivers, 100,000 records each, from 10 threads

Half of each receiver's threads store singly, half store batches of 500 reliably. Every record is a number of its own.
Ends with 1 if a count is not exact.
"""

import sys
import threading
import time
from array import array

from pyspark import SparkConf, SparkContext

from penstock import Receiver, StreamingContext
from penstock_cli.java import ensure_java

receivers = int(sys.argv[1]) if len(sys.argv) > 1 else 10
records = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
threads = int(sys.argv[3]) if len(sys.argv) > 3 else 10


class Crowd(Receiver):
    """Stores the numbers below ``count``, each from one of many threads."""

    def __init__(self, count, threads):
        self.count = count
        self.threads = threads

    def onStart(self):
        """Start them all."""
        for index in range(self.threads):
            threading.Thread(target=self.receive, args=(index,), daemon=True).start()

    def onStop(self):
        """Nothing to wake."""

    def receive(self, index):
        """Store the numbers of one thread: every n-th number, where n is the number of threads."""
        numbers = range(index, self.count, self.threads)
        if index % 2:
            for start in range(0, len(numbers), 500):
                self.store_all(numbers[start : start + 500])
        else:
            for number in numbers:
                self.store(number)


ensure_java()
conf = SparkConf().setMaster(f"local[{receivers + 2}]").setAppName("exact counts").set("spark.ui.enabled", "false")
conf.set("spark.python.unix.domain.socket.enabled", "true").set("spark.ui.showConsoleProgress", "false")
sc = SparkContext(conf=conf)
sc.setLogLevel("ERROR")
ssc = StreamingContext(sc, 1)
seen = [array("q") for _ in range(receivers)]


def take(rdd, into):
    """Keep the numbers of one batch."""
    for part in rdd.mapPartitions(lambda numbers: [array("q", numbers).tobytes()]).collect():
        into.frombytes(part)


for into in seen:
    ssc.receiverStream(Crowd(records, threads)).foreachRDD(lambda rdd, into=into: take(rdd, into))
started = time.monotonic()
ssc.start()
while min(map(len, seen)) < records and time.monotonic() - started < 300:
    time.sleep(0.1)
took_s = time.monotonic() - started
ssc.stop(stopSparkContext=False, stopGracefully=True)
sc.stop()
lost = sum(records - len(set(into)) for into in seen)
twice = sum(len(into) - len(set(into)) for into in seen)
print(
    f"{receivers} receivers x {records:,} records x {threads} threads: {sum(map(len, seen)):,} records in batches, "
    f"{lost} lost, {twice} twice; {took_s:.1f} s from start to the last batch"
)
sys.exit(bool(lost or twice or any(set(into) != set(range(records)) for into in seen)))
