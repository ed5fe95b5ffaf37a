"""Drain N lines from a socket and print the records/s, start to end.

usage: drain.py WORK PORT N [conf=value ...]     WORK: count | grep | wordcount

Something must serve N lines on 127.0.0.1:PORT. Run a peer on the same data in the same minute: only ratios count.
"""

import sys
import time

from pyspark import SparkConf, SparkContext

from penstock import StreamingContext
from penstock.launch.java import ensure_java

work, port, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ensure_java()
conf = SparkConf().setMaster("local[2]").setAppName("drain").set("spark.ui.enabled", "false")
conf.set("spark.python.unix.domain.socket.enabled", "true")
for pair in sys.argv[4:]:
    conf.set(*pair.split("=", 1))
sc = SparkContext(conf=conf)
sc.setLogLevel("ERROR")
sc.parallelize(range(2), 2).map(lambda x: x).count()  # warm the workers
ssc = StreamingContext(sc, 1)
lines = ssc.socketTextStream("127.0.0.1", port)
seen = 0
ended = 0.0
batches = []


def tally(rdd):
    """Do the work on one batch."""
    global seen, ended
    started = time.time()
    if work == "grep":
        got, _hits = rdd.map(lambda line: (1, "qu" in line)).fold((0, 0), lambda a, b: (a[0] + b[0], a[1] + b[1]))
    else:
        got = rdd.count()
    seen += got
    batches.append((got, round(time.time() - started, 2)))
    if seen >= n:
        ended = time.time()


if work == "wordcount":
    words = lines.flatMap(lambda line: line.split(" ")).map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b)
    words.foreachRDD(lambda rdd: rdd.top(10, key=lambda kv: kv[1]))
lines.foreachRDD(tally)
t0 = time.time()
ssc.start()
while not ended and time.time() - t0 < 300:
    time.sleep(0.05)
took = (ended or time.time()) - t0
rate = f"{seen} records in {took:.1f} s = {seen / took:,.0f} records/s"
print(f"penstock {work}: {rate}; batches {[batch for batch in batches if batch[0]]}")
ssc.stop()
