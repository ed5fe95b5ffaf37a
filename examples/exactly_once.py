"""Adds word counts to a table of SQLite or PostgreSQL exactly once, also when a batch runs again after a crash.

Needs: text files moved into the directory while it runs; for a postgresql:// URL psycopg
Run: penstock run examples/exactly_once.py DIRECTORY_OF_TEXT_FILES [DATABASE [CHECKPOINT_DIRECTORY]]
"""

import sqlite3
import sys
import time
from contextlib import closing
from functools import partial

from pyspark import SparkContext

from penstock import StreamingContext

if not 2 <= len(sys.argv) <= 4:
    sys.exit(__doc__)
texts, database, checkpoint = [*sys.argv[1:], *("counts.sqlite", "counts-checkpoint")[len(sys.argv) - 2 :]]
if database.startswith("postgresql:"):
    import psycopg

    connect, mark = partial(psycopg.connect, database), "%s"
else:
    connect, mark = partial(sqlite3.connect, database, timeout=60), "?"
ONCE = f"INSERT INTO written VALUES ({mark}) ON CONFLICT DO NOTHING"
ADD = f"INSERT INTO counts VALUES ({mark}, {mark}) ON CONFLICT (word) DO UPDATE SET n = counts.n + excluded.n"


def write(batch_time, counts):
    """Write the counts of a batch in one transaction, once for its batch time.

    The driver commits, because it has all counts or an error. A task whose executor dies may not see all of its data.
    """
    batch, rows = round(batch_time.timestamp() * 1000), counts.collect()
    while rows:  # a batch that has failed does not run again: wait here until the database is back
        try:
            with closing(connect()) as connection, connection:  # commits; after an exception it rolls back
                cursor = connection.cursor()
                if cursor.execute(ONCE, (batch,)).rowcount:  # 0: an earlier run of this batch has written it
                    cursor.executemany(ADD, rows)
            return
        except Exception as error:
            print(f"batch {batch} not written: {error}", file=sys.stderr)
            time.sleep(10)


def create():
    ssc = StreamingContext(SparkContext(appName="exactly once"), batchDuration=1)
    words = ssc.textFileStream(texts).flatMap(str.split).map(lambda word: (word, 1))
    words.reduceByKey(lambda a, b: a + b).foreachRDD(write)
    return ssc


with closing(connect()) as connection, connection:
    connection.execute("CREATE TABLE IF NOT EXISTS counts (word TEXT PRIMARY KEY, n BIGINT NOT NULL)")
    connection.execute("CREATE TABLE IF NOT EXISTS written (batch BIGINT PRIMARY KEY)")
ssc = StreamingContext.getOrCreate(checkpoint, create)
ssc.run()
