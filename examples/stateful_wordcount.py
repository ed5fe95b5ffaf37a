"""Counts words since the start of the program: updateStateByKey.

Needs: nothing; with HOST and PORT a server that sends lines of text, such as nc -lk 9999
Run: penstock run examples/stateful_wordcount.py [HOST PORT]
"""

import sys
import tempfile

from pyspark import SparkContext

from penstock import StreamingContext

if len(sys.argv) not in (1, 3):
    sys.exit(__doc__)


def add(new, total):
    """The new total of a word: called in every batch for every word seen so far."""
    return sum(new) + (total or 0)


ssc = StreamingContext(SparkContext(appName="stateful word count"), batchDuration=1)
ssc.checkpoint(tempfile.mkdtemp())  # state needs a directory; recoverable_wordcount.py continues from one

if sys.argv[1:]:
    lines = ssc.socketTextStream(sys.argv[1], int(sys.argv[2]))
else:
    lines = ssc.receiverStream("synthetic", rate=20)
totals = lines.flatMap(str.split).map(lambda word: (word, 1)).updateStateByKey(add)
totals.foreachRDD(lambda rdd: print("most frequent:", rdd.takeOrdered(5, key=lambda pair: (-pair[1], pair[0]))))

ssc.run()
