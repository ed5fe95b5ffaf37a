"""Prints the most frequent words of the last 30 seconds, every 5 seconds: a window and its top k.

Needs: nothing; with HOST and PORT a server that sends lines of text, such as nc -lk 9999
Run: penstock run examples/top_words.py [HOST PORT]
"""

import sys

from pyspark import SparkContext

from penstock import StreamingContext

if len(sys.argv) not in (1, 3):
    sys.exit(__doc__)

K, WINDOW_S, SLIDE_S = 3, 30, 5


def show(time, rdd):
    """Print the top k: each partition finds its own, the driver merges these."""
    print(f"{time:%H:%M:%S}")
    for word, count in rdd.takeOrdered(K, key=lambda pair: (-pair[1], pair[0])):
        print(f"{count:7} {word}")


ssc = StreamingContext(SparkContext(appName="top words"), batchDuration=1)

if sys.argv[1:]:
    lines = ssc.socketTextStream(sys.argv[1], int(sys.argv[2]))
else:
    lines = ssc.receiverStream("synthetic", rate=100)
words = lines.flatMap(str.split).map(lambda word: (word, 1))
# None: no inverse function. Penstock merges partial results, so that a window costs little without one.
words.reduceByKeyAndWindow(lambda a, b: a + b, None, WINDOW_S, SLIDE_S).foreachRDD(show)

ssc.run()
