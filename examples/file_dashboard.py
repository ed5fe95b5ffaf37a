"""Follows log files as tail -F does, counts lines by level, and serves a dashboard of the stream.

Needs: a log file; PATH is a file, a directory or a pattern, by default /var/log/*.log
Run: penstock run examples/file_dashboard.py [PATH]
"""

import re
import sys

from pyspark import SparkConf, SparkContext

from penstock import StreamingContext

if len(sys.argv) > 2:
    sys.exit(__doc__)
path = sys.argv[1] if sys.argv[1:] else "/var/log/*.log"

LEVEL = re.compile(r"\b(DEBUG|INFO|WARN|ERROR|FATAL)")


def level(line):
    match = LEVEL.search(line)
    return match[1] if match else "no level"


conf = SparkConf().setAppName("log levels").set("spark.streaming.stopGracefullyOnShutdown", "true")
ssc = StreamingContext(SparkContext(conf=conf), batchDuration=1)

ssc.receiverStream("file", path=path).map(level).countByValue().pprint()

ssc.start()
print(f"dashboard: {ssc.uiWebUrl}")
ssc.awaitTermination()
