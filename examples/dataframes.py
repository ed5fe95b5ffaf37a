"""Counts the words of the files that appear in a directory with DataFrames, for ten seconds.

Needs: pip install penstock-dataframes; move text files into the directory while it runs
Run: penstock run examples/dataframes.py DIRECTORY
"""

import sys

from pyspark import SparkContext
from pyspark.sql import functions as F

from penstock import StreamingContext

if len(sys.argv) != 2:
    sys.exit(__doc__)

sc = SparkContext(appName="words")
ssc = StreamingContext(sc, 1.0)

lines = ssc.textFileStream(sys.argv[1]).toDF()
words = lines.select(F.explode(F.split("value", " ")).alias("word"))
counts = words.groupBy("word").agg(F.count("*").alias("count"))
counts.transform(lambda df: df.orderBy(F.desc("count"), "word")).pprint(5)
lines.sql("SELECT count(*) AS lines, max(length(value)) AS longest FROM batch").pprint()

ssc.run(10)
