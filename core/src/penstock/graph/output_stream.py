"""Output streams: where a graph ends, and the jobs that each batch makes of them.

Owns the call of the program's output function. A job is made on the generator's loop and runs on the job pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from pyspark import RDD

from penstock.graph.dstream import DStream

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.graph.call_site import CallSite


@frozen
class OutputJob:
    """What one output operation does for one batch.

    Attributes:
        output_op_id: of the output stream.
        call_site: where the program registered it.
        run: does it; on the job pool.
    """

    output_op_id: int
    call_site: CallSite
    run: Callable[[], object] = field(repr=False)


class ForEachDStream(DStream[Any]):
    """A stream whose every RDD goes to a function of the program.

    Args:
        parent: whose RDDs.
        function: called with the batch's datetime and RDD.
        call_site: where the program registered it.
    """

    def __init__(
        self, parent: DStream[Any], function: Callable[[datetime, RDD[Any]], object], call_site: CallSite
    ) -> None:
        super().__init__(parent.context(), parents=(parent,))
        self._parent, self._function, self._call_site = parent, function, call_site
        self.output_op_id = self._graph.add_output(self)

    def compute(self, time_ms: int) -> None:
        """Nothing: an output makes jobs, not RDDs."""

    def generate_job(self, time_ms: int) -> OutputJob | None:
        """The batch's job; ``None`` when the parent has no RDD for that time.

        What the making of the RDD raises (the program's functions for ``transform`` run here) becomes a job that fails
        with it: the batch has an explicit end, and its other outputs run.
        """
        try:
            rdd = self._parent.get_or_compute(time_ms)
        except BaseException as error:
            return OutputJob(self.output_op_id, self._call_site, _Raise(error))
        if rdd is None:
            return None
        time = self.datetime_of(time_ms)
        return OutputJob(self.output_op_id, self._call_site, lambda: self._function(time, rdd))


@frozen
class _Raise:
    error: BaseException

    def __call__(self) -> None:
        raise self.error
