"""``CombinedDStream``: the values of each key become one, batch by batch.

Owns the three steps: combine in each partition, shuffle, combine again. Computed on the generator's loop.
"""

from __future__ import annotations

from typing import Any

from pyspark import RDD
from pyspark.core.rdd import portable_hash

from penstock.graph.arguments import partitions
from penstock.graph.dstream import DStream
from penstock.worker import functions


class CombinedDStream(DStream[tuple[Any, Any]]):
    """``combineByKey``: combine in each partition, shuffle, combine again."""

    def __init__(self, parent: DStream[Any], combiner: functions.Combiner, num_partitions: int | None) -> None:
        super().__init__(parent.context(), (parent,))
        self._parent = parent._narrow(functions.CombineValues(combiner), True)
        self._parents = (self._parent,)
        self.combiner = combiner
        self.num_partitions = partitions(num_partitions, self._sc.defaultParallelism)

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """The three steps."""
        rdd = self._parent.get_or_compute(time_ms)
        if rdd is None:
            return None
        shuffled = rdd.partitionBy(self.num_partitions, portable_hash)
        return shuffled.mapPartitionsWithIndex(functions.CombineCombiners(self.combiner), True)
