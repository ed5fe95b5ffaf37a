"""Counts words since the first start, also after a crash or an upgrade: getOrCreate, checkpoints, write-ahead log.

Needs: a server that sends lines of text, such as nc -lk 9999; kill the program and run it again
Run: penstock run examples/recoverable_wordcount.py [HOST PORT [CHECKPOINT_DIRECTORY]]
"""

import sys

from pyspark import SparkConf, SparkContext

from penstock import StreamingContext

if len(sys.argv) not in (1, 3, 4):
    sys.exit(__doc__)
host, port, directory = [*sys.argv[1:], *("localhost", "9999", "wordcount-checkpoint")[len(sys.argv) - 1 :]]


def create():
    """Build the program: called when the directory has no checkpoint to recover from."""
    print(f"first start: {directory} has no checkpoint")
    conf = SparkConf().setAppName("recoverable word count")
    # Lines that were received and not yet counted are read from the log after a crash.
    conf.set("spark.streaming.receiver.writeAheadLog.enable", "true")
    ssc = StreamingContext(SparkContext(conf=conf), batchDuration=1)
    words = ssc.socketTextStream(host, int(port)).flatMap(str.split)
    totals = words.map(lambda word: (word, 1)).updateStateByKey(lambda new, total: sum(new) + (total or 0))
    totals.pprint()
    return ssc


ssc = StreamingContext.getOrCreate(directory, create)
ssc.run()
