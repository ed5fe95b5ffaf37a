"""Output streams: where a graph ends, and the jobs that each batch makes of them.

Owns the call of the program's output function, and the further tries to make an RDD that could not be made. A job is
made on the generator's loop and runs on the job pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark import RDD

from penstock.errors import BatchFailedError
from penstock.graph.dstream import DStream
from penstock.graph.job import Job
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff
from penstock.spark import failure

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.graph.call_site import CallSite

log = get_logger("output_stream")

# The waits between tries: from this part of a batch interval, doubling, up to this.
_FIRST_WAIT, _LONGEST_WAIT_MS = 1 / 20, 1000.0


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
        self._parent, self.function, self.call_site = parent, function, call_site
        self.output_op_id = self._graph.add_output(self)

    def compute(self, time_ms: int) -> None:
        """Nothing: an output makes jobs, not RDDs."""

    def generate_job(self, time_ms: int) -> Job | None:
        """The batch's job; ``None`` when the parent has no RDD for that time.

        What the making of the RDD raises (the program's functions for ``transform`` run here) does not concern the
        batch's other outputs: this one's job tries again. What a run before this one has done is not repeated; its RDD
        is made all the same, for states must have been through every batch.
        """
        try:
            self._graph.runtime.before_output(time_ms, self.output_op_id)
            rdd = self._parent.get_or_compute(time_ms)
        except BaseException as error:
            # Not in the lambda alone: the name ends with this block.
            first = error
            self._graph.unmade[time_ms] += 1
            return self._job(lambda: self._generate_again(time_ms, first))
        return None if rdd is None else self._job(lambda: self._run(time_ms, rdd))

    def failed_job(self, error: BaseException) -> Job:
        """The job of a batch that could not be made at all: it raises why."""

        def fail() -> None:
            raise error

        return self._job(fail)

    def _job(self, run: Callable[[], object]) -> Job:
        return Job(self.output_op_id, self.call_site, run)

    def _run(self, time_ms: int, rdd: RDD[Any]) -> None:
        done = self._graph.runtime.completed_outputs
        if done is not None and done.has(time_ms, self.output_op_id):
            log.info("output not repeated: it was done", batch_time=time_ms, operation=self.call_site.short)
            return
        self.function(self.datetime_of(time_ms), rdd)
        self._graph.raise_failures()
        if done is not None:
            done.note(time_ms, self.output_op_id)

    def _generate_again(self, time_ms: int, error: BaseException) -> None:
        """On the job's thread, so that no other batch waits for it: the tries that are left, then the function."""
        backoff, tries = Backoff(self._graph.batch_interval_ms * _FIRST_WAIT, _LONGEST_WAIT_MS), 1
        # Real time, under a manual clock too: there is little of it, and nobody would move the clock for it.
        retries = self._graph.runtime.generation_retries
        while tries <= retries and not self._graph.stopping.wait(backoff.next_ms() / 1000):
            tries += 1
            log.info("making an output's RDD again", batch_time=time_ms, operation=self.call_site.short)
            try:
                with self._graph.lock:
                    rdd = self._parent.get_or_compute(time_ms)
            except BaseException as again:
                error = again
            else:
                self._end_of_tries(time_ms)
                return None if rdd is None else self._run(time_ms, rdd)
        self._end_of_tries(time_ms)
        inner = failure.python_traceback(error)
        raise BatchFailedError(
            f"output operation {self.output_op_id} ({self.call_site.short}) of batch {time_ms} ms failed: its RDD "
            f"could not be made, {tries} {'try' if tries == 1 else 'tries'}: {failure.reason(error)}"
            + (f"\n{inner}" if inner else "")
        ) from error

    def _end_of_tries(self, time_ms: int) -> None:
        with self._graph.lock:
            self._graph.unmade[time_ms] -= 1
            if self._graph.unmade[time_ms] <= 0:
                del self._graph.unmade[time_ms]
