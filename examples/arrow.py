"""Counts the words of a socket's lines with Arrow's kernels, per batch and per minute, for ten seconds.

Needs: pip install penstock-dataframes; a server that sends lines, such as nc -lk 9999
Run: penstock run examples/arrow.py
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkContext

from penstock import StreamingContext


def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn lines into words."""
    for batch in batches:
        yield pa.record_batch({"word": pc.list_flatten(pc.split_pattern(batch["value"], " "))})


sc = SparkContext("local[3]", "words")
ssc = StreamingContext(sc, 1.0)

words = ssc.socketTextStream("localhost", 9999).mapInArrow(split)
words.groupBy("word").count().pprint(5)
words.groupBy("word").window(60, 10).agg(count=("*", "count")).foreachTable(
    lambda table: print(table.sort_by([("count", "descending")]).slice(0, 5))
)

ssc.run(10)
