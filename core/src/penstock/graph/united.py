"""``UnionDStream``: the records of several streams, put together. Computed on the generator's loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark import RDD

from penstock.errors import StreamingStateError
from penstock.graph.dstream import DStream


class UnionDStream(DStream[Any]):
    """The records of several streams."""

    def __init__(self, parents: Iterable[DStream[Any]]) -> None:
        parents = tuple(parents)
        super().__init__(parents[0].context(), parents)
        if any(parent.context() is not self._context for parent in parents):
            raise ValueError("the DStreams to union should belong to one StreamingContext")

    def compute(self, time_ms: int) -> RDD[Any]:
        """The union of the parents' RDDs."""
        rdds = [parent.get_or_compute(time_ms) for parent in self._parents]
        missing = [type(parent).__name__ for parent, rdd in zip(self._parents, rdds, strict=True) if rdd is None]
        if missing:
            raise StreamingStateError(f"could not make the RDD of {missing[0]}, to be united, at time {time_ms} ms")
        return self._sc.union([rdd for rdd in rdds if rdd is not None])
