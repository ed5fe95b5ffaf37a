"""Adds word counts to a table of SQLite or PostgreSQL exactly once, also when a batch runs again after a crash.

Needs: text files moved into the directory while it runs; for a postgresql:// URL psycopg, here and on executors
Run: penstock run examples/exactly_once.py DIRECTORY_OF_TEXT_FILES [DATABASE [CHECKPOINT_DIRECTORY]]
"""

import sqlite3
import sys
import time
from contextlib import closing
from functools import partial

from pyspark import SparkContext, TaskContext

from penstock import StreamingContext

if not 2 <= len(sys.argv) <= 4:
    sys.exit(__doc__)
texts, database, checkpoint = [*sys.argv[1:], *("counts.sqlite", "counts-checkpoint")[len(sys.argv) - 2 :]]
if database.startswith("postgresql:"):
    import psycopg

    connect, mark = partial(psycopg.connect, database), "%s"
else:
    connect, mark = partial(sqlite3.connect, database, timeout=60), "?"
ONCE = f"INSERT INTO written VALUES ({mark}, {mark}) ON CONFLICT DO NOTHING"
ADD = f"INSERT INTO counts VALUES ({mark}, {mark}) ON CONFLICT (word) DO UPDATE SET n = counts.n + excluded.n"


def write(batch_time, counts):
    """Write a batch: each partition in a transaction of its own, once for its batch time and its number."""
    batch = round(batch_time.timestamp() * 1000)

    def write_partition(pairs):
        if not (rows := list(pairs)):
            return
        with closing(connect()) as connection, connection:  # commits; after an exception it rolls back
            cursor = connection.execute(ONCE, (batch, TaskContext.get().partitionId()))
            if cursor.rowcount:  # 0: an earlier run of this batch has written this partition
                cursor.executemany(ADD, rows)

    while True:  # a batch that has failed does not run again: wait here until the database is back
        try:
            return counts.foreachPartition(write_partition)
        except Exception as error:
            print(f"batch {batch} not written: {error}", file=sys.stderr)
            time.sleep(10)


def create():
    ssc = StreamingContext(SparkContext(appName="exactly once"), batchDuration=1)
    words = ssc.textFileStream(texts).flatMap(str.split).map(lambda word: (word, 1))
    # 2: a batch must have the same partitions when it runs again, so their number may not depend on the cores.
    words.reduceByKey(lambda a, b: a + b, 2).foreachRDD(write)
    return ssc


with closing(connect()) as connection, connection:
    connection.execute("CREATE TABLE IF NOT EXISTS counts (word TEXT PRIMARY KEY, n BIGINT NOT NULL)")
    connection.execute("CREATE TABLE IF NOT EXISTS written (batch BIGINT, part INT, PRIMARY KEY (batch, part))")
ssc = StreamingContext.getOrCreate(checkpoint, create)
ssc.run()
