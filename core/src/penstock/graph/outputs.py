"""The nodes of output operations: where a graph ends, and the jobs that each batch generates from them.

A job is generated on the generator's loop and runs on the job pool. Owns the call of the program's output function, and
the retries of an RDD that could not be generated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime
from typing import Any

from attrs import field, frozen
from pyspark import RDD
from pyspark.errors import AnalysisException

from penstock.errors import BatchFailedError, ResultTypeError, SchemaError
from penstock.graph.call_site import CallSite
from penstock.graph.node import Node
from penstock.runtime.clock import iso_time
from penstock.runtime.log import get_logger
from penstock.runtime.retry import Backoff, retry
from penstock.spark import failure

log = get_logger("outputs")

# Waits between retries: the first as part of a batch interval, doubling up to the longest.
_FIRST_WAIT, _LONGEST_WAIT_MS = 1 / 20, 1000.0

# What the next attempt would raise again.
_REPEATED = (AnalysisException, SchemaError, ResultTypeError)


@frozen
class Job:
    """The job of one output operation in one batch.

    Attributes:
        output_op_id: id of the output operation.
        call_site: the line of the program that registered the output operation.
        run: runs the job, on a thread of the job pool.
    """

    output_op_id: int
    call_site: CallSite
    run: Callable[[], object] = field(repr=False)


def generation_backoff(batch_interval_ms: int) -> Backoff:
    """The delays between attempts to generate a batch or one of its outputs."""
    return Backoff(batch_interval_ms * _FIRST_WAIT, _LONGEST_WAIT_MS)


class ForEachDStream(Node):
    """An output operation: every RDD of the parent goes to a function of the program.

    Subclasses that call the function with something else than an RDD override ``batch`` and ``call``.

    Args:
        parent: gives the RDDs.
        function: called with the batch's datetime and RDD.
    """

    role = "output"

    def __init__(self, parent: Node, function: Callable[[datetime, Any], object]) -> None:
        super().__init__(parent.graph, parents=(parent,))
        self._parent = parent
        self.function = function
        self.output_op_id = self.graph.add_output(self)

    def compute(self, time_ms: int) -> None:
        """Return ``None``: an output generates jobs, not RDDs."""

    def generate_job(self, time_ms: int) -> Job | None:
        """The batch's job; ``None`` when the parent has no RDD for that time.

        Generating the RDD may raise: functions given to ``transform`` run here. This does not concern the batch's other
        outputs, so the job retries it. An output that an earlier run completed is not repeated, but its RDD is
        generated: state must be updated by every batch.
        """
        try:
            if self._runs_foreign_code:
                self.graph.runtime.before_output(time_ms, self.output_op_id)
            batch = self.batch(time_ms)
        except BaseException as error:
            first = error  # Python unbinds `error` at the end of the block
            self.graph.retrying[time_ms] += 1
            return self._job(lambda: self._retry(time_ms, first))
        return None if batch is None else self._job(lambda: self._run(time_ms, batch))

    @functools.cached_property
    def _streams(self) -> list[Node]:
        """The streams that the output depends on."""
        streams: dict[int, Node] = {self._parent.number: self._parent}
        waiting = [self._parent]
        while waiting:
            for parent in waiting.pop().parents:
                if parent.number not in streams:
                    streams[parent.number] = parent
                    waiting.append(parent)
        return list(streams.values())

    @functools.cached_property
    def _runs_foreign_code(self) -> bool:
        """Whether Spark jobs may run while the RDD is generated: then they must carry the batch's properties."""
        return any(stream.runs_foreign_code for stream in self._streams)

    def failed_job(self, error: BaseException) -> Job:
        """The job of a batch that could not be generated at all: it raises the reason."""

        def fail() -> None:
            raise error

        return self._job(fail)

    def batch(self, time_ms: int) -> Any:
        """The argument of ``call`` for a batch; ``None`` for a time without a batch. Called under the graph's lock."""
        return self._parent.get_or_compute(time_ms)

    def call(self, time_ms: int, batch: Any) -> None:
        """Call the function. Runs on the job's thread."""
        self.function(self.datetime_of(time_ms), batch)

    def _job(self, run: Callable[[], object]) -> Job:
        return Job(self.output_op_id, self.call_site, run)

    def _run(self, time_ms: int, batch: Any) -> None:
        completed = self.graph.runtime.completed_outputs
        if completed is not None and completed.has(time_ms, self.output_op_id):
            log.info("completed output not repeated", batch_time=time_ms, operation=self.call_site.short)
            return
        self.call(time_ms, batch)
        self.graph.raise_state_errors()
        if completed is not None:
            completed.note(time_ms, self.output_op_id)

    def _retry(self, time_ms: int, first: BaseException) -> None:
        """Retry to generate the RDD, then run the output; on the job's thread, so that no other batch waits."""
        graph, tries = self.graph, 0

        def generate() -> Any:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise first  # the first try was on the generator's loop
            for stream in self._streams:
                stream.before_retry()
            with graph.lock:
                return self.batch(time_ms)

        try:
            batch = retry(
                generate,
                generation_backoff(graph.batch_interval_ms),
                retries=graph.runtime.generation_retries,
                retry_if=lambda error: not isinstance(error, _REPEATED),
                on_retry=lambda _error, delay_ms: log.info(
                    "output not generated, retrying",
                    batch_time=time_ms,
                    operation=self.call_site.short,
                    delay_ms=round(delay_ms),
                ),
                # Real time also under a manual clock: the waits are short, and nobody would move the clock for them.
                stop=graph.stopping,
            )
        except BaseException as error:
            inner = failure.python_traceback(error)
            raise BatchFailedError(
                f"output operation {self.output_op_id} ({self.call_site.short}) of batch {iso_time(time_ms)} failed: "
                f"its RDD could not be generated, {tries} {'attempt' if tries == 1 else 'attempts'}: "
                f"{failure.reason(error)}" + (f"\n{inner}" if inner else "")
            ) from error
        finally:
            with graph.lock:
                graph.retrying[time_ms] -= 1
                if graph.retrying[time_ms] <= 0:
                    del graph.retrying[time_ms]
        if batch is not None:
            self._run(time_ms, batch)


@frozen
class PrintRecords:
    """The output function of ``pprint``.

    Attributes:
        num: how many records to print.
    """

    num: int

    def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
        """Print the first records."""
        taken = rdd.take(self.num + 1)
        lines = ["-" * 43, f"Time: {time}", "-" * 43, *map(str, taken[: self.num])]
        if len(taken) > self.num:
            lines.append("...")
        # One call, so that the lines of outputs that run at the same time stay together.
        print("\n".join([*lines, ""]), flush=True)


@frozen
class SaveFiles:
    """The output function of ``saveAsTextFiles`` and ``saveAsPickleFiles``.

    Attributes:
        save: writes an RDD into a directory.
        prefix: first part of the directory names.
        suffix: last part of the directory names, after a dot; ``None`` for none.
    """

    save: Callable[[RDD[Any], str], None]
    prefix: str
    suffix: str | None

    def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
        """Write the RDD; an existing directory was written when the batch ran before."""
        path = f"{self.prefix}-{round(time.timestamp() * 1000)}" + (f".{self.suffix}" if self.suffix else "")
        try:
            self.save(rdd, path)
        except Exception as error:
            if "FileAlreadyExistsException" not in str(error):
                raise
            log.warning("batch not saved: its directory exists", path=path)
