"""Counts the words of the lines that a TCP server sends, batch by batch.

Needs: a server that sends lines of text, such as nc -lk 9999
Run: penstock run examples/network_wordcount.py [HOST PORT]
"""

import sys

from pyspark import SparkContext

from penstock import StreamingContext

if len(sys.argv) not in (1, 3):
    sys.exit(__doc__)
host, port = sys.argv[1:] or ("localhost", "9999")

ssc = StreamingContext(SparkContext(appName="network word count"), batchDuration=1)

lines = ssc.socketTextStream(host, int(port))
counts = lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b)
counts.pprint()

ssc.run()  # until Ctrl-C; what was received is still counted
