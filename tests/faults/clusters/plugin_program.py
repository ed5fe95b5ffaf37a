"""A program with a plugin's receiver, ``file``, for ``test_cluster``. Argument: the file that it follows."""

from __future__ import annotations

import sys

from pyspark import SparkContext

from penstock import StreamingContext

if __name__ == "__main__":
    sc = SparkContext()
    sc.setLogLevel("OFF")
    ssc = StreamingContext(sc, 1)
    ssc.receiverStream("file", path=sys.argv[1]).foreachRDD(lambda rdd: None)
    ssc.start()
    ssc.awaitTermination()
