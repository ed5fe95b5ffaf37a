"""The nodes of output operations, and their jobs.

A job is generated on the generator's loop and runs on the job pool. It calls the program's output function, and retries
an RDD that could not be generated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Any

from attrs import field, frozen
from pyspark import RDD
from pyspark.errors import AnalysisException

from penstock.errors import BatchFailedError, ResultTypeError, SchemaError
from penstock.graph.call_site import CallSite
from penstock.graph.node import Node, with_ancestors
from penstock.runtime.clock import iso_time
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff, retry
from penstock.spark import failure
from penstock.spark.rdd_files import discard_interrupted_save, is_saved

log = get_logger("outputs")

# The first delay before a retry, as a fraction of the batch interval, and the longest delay.
_FIRST_DELAY, _LONGEST_DELAY_MS = 1 / 20, 1000.0

# Errors that a retry would raise again.
_PERMANENT = (AnalysisException, SchemaError, ResultTypeError)


@frozen
class Job:
    """The job of one output operation in one batch; ``run`` is called on a thread of the job pool."""

    output_op_id: int
    call_site: CallSite
    run: Callable[[], object] = field(repr=False)


def generation_backoff(batch_interval_ms: int) -> Backoff:
    """The delays between attempts to generate a batch or one of its outputs."""
    return Backoff(batch_interval_ms * _FIRST_DELAY, _LONGEST_DELAY_MS)


def output_failed(output: Job | ForEachDStream, time_ms: int, reason: str, error: BaseException) -> BatchFailedError:
    """The error of a batch in which an output failed, with the Python traceback of its task."""
    inner = failure.python_traceback(error)
    return BatchFailedError(
        f"output operation {output.output_op_id} ({output.call_site.short}) of batch {iso_time(time_ms)} failed: "
        f"{reason}" + (f"\n{inner}" if inner else "")
    )


class ForEachDStream(Node):
    """An output operation, which calls a function of the program with the batch's datetime and every RDD of the parent.

    Subclasses that call the function with another value than an RDD override ``batch`` and ``call``.
    """

    role = "output"

    def __init__(self, parent: Node, function: Callable[[datetime, Any], object]) -> None:
        super().__init__(parent.graph, parents=(parent,))
        self._parent = parent
        self.function = function
        self.output_op_id = self.graph.add(self.graph.outputs, self)

    def compute(self, time_ms: int) -> None:
        """Return ``None``: an output generates jobs, not RDDs."""

    def generate_job(self, time_ms: int) -> Job | None:
        """The batch's job; ``None`` if the parent has no RDD for that time.

        The generation may raise, because the functions of ``transform`` run here. The batch's other outputs are not
        affected, so the job retries. An output that an earlier run completed is not repeated, but its RDD is generated,
        because every batch must update the state.
        """
        try:
            if self._runs_foreign_code:
                self.graph.runtime.before_output(time_ms, self.output_op_id)
            batch = self.batch(time_ms)
        except BaseException as error:
            first = error  # Python unbinds `error` at the end of the block
            self.graph.retrying[time_ms] += 1
            generate = _once(lambda: self._generate_again(time_ms, first))
            return Job(self.output_op_id, self.call_site, lambda: self._run(time_ms, generate()))
        return None if batch is None else Job(self.output_op_id, self.call_site, lambda: self._run(time_ms, batch))

    @functools.cached_property
    def _streams(self) -> list[Node]:
        return with_ancestors([self._parent])

    @functools.cached_property
    def _runs_foreign_code(self) -> bool:
        """Whether Spark jobs, which must carry the batch's properties, may run while the RDD is generated."""
        return any(stream.runs_foreign_code for stream in self._streams)

    def failed_job(self, error: BaseException) -> Job:
        """The job of a batch that could not be generated: it raises the reason."""

        def fail() -> None:
            raise error

        return Job(self.output_op_id, self.call_site, fail)

    def batch(self, time_ms: int) -> Any:
        """The argument of ``call`` for a batch; ``None`` for a time without a batch. Called under the graph's lock."""
        return self._parent.get_or_compute(time_ms)

    def call(self, time_ms: int, batch: Any) -> object:
        """Call the function. Runs on the job's thread."""
        return self.function(self.datetime_of(time_ms), batch)

    def _run(self, time_ms: int, batch: Any) -> object:
        if batch is None:
            return None
        completed = self.graph.runtime.completed_outputs
        if completed is not None and completed.has(time_ms, self.output_op_id):
            log.info("completed output not repeated", batch_time=time_ms, operation=self.call_site.short)
            return None
        result = self.call(time_ms, batch)
        for stream in self._streams:
            stream.check_job()
        if completed is not None:
            completed.note(time_ms, self.output_op_id)
        return result

    def _generate_again(self, time_ms: int, first: BaseException) -> Any:
        """Retry to generate the RDD; on the job's thread, so that no other batch waits."""
        # The first attempt was on the generator's loop.
        graph, attempts = self.graph, 1

        def generate() -> Any:
            nonlocal attempts
            attempts += 1
            for stream in self._streams:
                stream.before_retry()
            with graph.lock:
                return self.batch(time_ms)

        try:
            return retry(
                generate,
                generation_backoff(graph.batch_interval_ms),
                failed=first,
                retries=graph.runtime.generation_retries,
                retry_if=lambda error: not isinstance(error, _PERMANENT),
                on_retry=lambda _error, delay_ms: log.info(
                    "output not generated, retrying",
                    batch_time=time_ms,
                    operation=self.call_site.short,
                    delay_ms=round(delay_ms),
                ),
                # Real time even under a manual clock, because nobody would advance the clock for the short delays.
                stop=graph.stopping,
            )
        except BaseException as error:
            number = f"{attempts} {'attempt' if attempts == 1 else 'attempts'}"
            reason = f"its RDD could not be generated after {number}: {failure.reason(error)}"
            raise output_failed(self, time_ms, reason, error) from error
        finally:
            with graph.lock:
                graph.retrying[time_ms] -= 1
                if graph.retrying[time_ms] <= 0:
                    del graph.retrying[time_ms]


def _once(function: Callable[[], Any]) -> Callable[[], Any]:
    """A function with the outcome of the first call: by a later one, streams may have forgotten the batch's input."""
    outcome: Future[Any] = Future()

    def call() -> Any:
        if not outcome.done():
            try:
                outcome.set_result(function())
            except BaseException as error:
                outcome.set_exception(error)
        return outcome.result()

    return call


@frozen
class PrintRecords:
    """The output function of ``pprint``, which prints the first ``num`` records."""

    num: int

    def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
        taken = rdd.take(self.num + 1)
        lines = ["-" * 43, f"Time: {time}", "-" * 43, *map(str, taken[: self.num])]
        if len(taken) > self.num:
            lines.append("...")
        # One call, so that the lines of concurrent outputs are not mixed.
        print("\n".join([*lines, ""]), flush=True)


@frozen
class SaveFiles:
    """The output function of ``saveAsTextFiles`` and ``saveAsPickleFiles``; ``save`` writes an RDD into a directory."""

    save: Callable[[RDD[Any], str], None]
    prefix: str
    suffix: str | None

    def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
        path = f"{self.prefix}-{round(time.timestamp() * 1000)}" + (f".{self.suffix}" if self.suffix else "")
        try:
            self.save(rdd, path)
        except Exception as error:
            if "FileAlreadyExistsException" not in str(error):
                raise
            # An earlier attempt of the batch has saved it, or was interrupted.
            if is_saved(rdd.context, path):
                log.warning("batch not saved: its directory exists", path=path)
            elif discard_interrupted_save(rdd.context, path):
                log.warning("interrupted save of the batch discarded", path=path)
                self.save(rdd, path)
            else:
                raise
