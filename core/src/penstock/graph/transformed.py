"""``TransformedDStream``: RDDs that a function of the program makes of its parents' RDDs.

Owns the checks of what goes into that function and what comes out. It runs on the generator's loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import RDD

from penstock.graph.dstream import DStream


class TransformedDStream(DStream[Any]):
    """A stream whose RDDs the program's function makes of its parents'.

    Raises:
        ValueError: the parents' slide durations differ, or they belong to different contexts.
    """

    def __init__(self, parents: tuple[DStream[Any], ...], function: Callable[..., Any]) -> None:
        super().__init__(parents[0].context(), parents)
        if len({parent.slide_ms for parent in parents}) > 1:
            raise ValueError("the DStreams should have same slide duration")
        if any(parent.context() is not self._context for parent in parents):
            raise ValueError("the DStreams should belong to one StreamingContext")
        self._function = function

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """Call the function. A result of ``None`` means no RDD for this batch, as in PySpark."""
        rdds = [parent.get_or_compute(time_ms) for parent in self._parents]
        if len(rdds) == 1 and rdds[0] is None:
            return None
        present = [self._sc.emptyRDD() if rdd is None else rdd for rdd in rdds]
        made = self._function(self.datetime_of(time_ms), *present)
        if made is not None and not isinstance(made, RDD):
            raise TypeError(f"the function given to transform returned {type(made).__name__}, not an RDD")
        return made
