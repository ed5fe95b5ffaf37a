"""DataFrames: the batches of a stream as Spark DataFrames, for ``DStream.toDF`` and ``foreachDataFrame``.

Exports nothing: tasks import this package, and programs use ``penstock.DataFrameStream``.
"""
