"""``MapPartitionsDStream``: the narrow operators, fused.

Owns the fusion: a chain of streams whose RDDs nobody keeps is one pass over each partition. Computed on the generator's
loop.
"""

from __future__ import annotations

from typing import Any

from pyspark import RDD

from penstock.graph.dstream import DStream
from penstock.worker import functions
from penstock.worker.functions import PartitionFunction


class MapPartitionsDStream(DStream[Any]):
    """A stream whose RDDs come from a partition function, fused with those of the parents that are not kept."""

    def __init__(self, parent: DStream[Any], function: PartitionFunction, preserves_partitioning: bool) -> None:
        super().__init__(parent.context(), (parent,))
        self._parent, self._function, self._preserves_partitioning = parent, function, preserves_partitioning

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """One ``mapPartitionsWithIndex`` for the whole chain."""
        chain, preserves, source = [self._function], self._preserves_partitioning, self._parent
        while isinstance(source, MapPartitionsDStream) and source.is_fusible:
            chain.append(source._function)
            preserves = preserves and source._preserves_partitioning
            source = source._parent
        rdd = source.get_or_compute(time_ms)
        if rdd is None:
            return None
        return rdd.mapPartitionsWithIndex(functions.Fused(tuple(reversed(chain))), preserves)
