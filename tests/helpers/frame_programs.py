"""Runs programs with DataFrame streams over stored blocks, under the manual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.helpers import graph_of, wait_for
from tests.helpers.stored_blocks import StoredBatch, StoredBlocks, stored_stream

from penstock import DStream, StreamingContext
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Program = Callable[..., None]

#: Configuration of a session whose plans are cheap: a task, a plan in stages and compiled code cost more than few rows.
FRUGAL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}


@contextmanager
def frugal_plans(session: SparkSession) -> Iterator[None]:
    """DataFrames of small batches: plans that are not compiled, in few partitions."""
    for key, value in FRUGAL.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key in FRUGAL:
            session.conf.unset(key)


class Run:
    """Runs a program over stored batches, and collects the errors of its batches.

    Args:
        sc: runs the jobs.
        folder: for the blocks.
    """

    def __init__(self, sc: SparkContext, folder: Path) -> None:
        self._sc = sc
        self._folder = folder
        #: By batch (counted from 1) and output operation: what the operation failed with.
        self.errors: dict[tuple[int, int], str] = {}
        self._completed = self._zero_ms = self._interval_ms = 0

    def __call__(
        self, program: Program, *inputs: Sequence[StoredBatch], num_batches: int, interval_s: float = 1.0
    ) -> None:
        """Run the program with a stream for each input, for some batches."""
        clock, self._completed = ManualClock(), 0
        ssc = StreamingContext(self._sc, interval_s, clock=clock)
        blocks = StoredBlocks(self._folder, round(interval_s * 1000))
        streams: list[DStream[Any]] = [stored_stream(ssc, blocks, batches) for batches in inputs]
        program(ssc, *streams)
        ssc.addStreamingListener(self)
        ssc.start()
        zero_ms = graph_of(ssc).zero_time_ms
        assert zero_ms is not None
        self._zero_ms = zero_ms
        self._interval_ms = round(interval_s * 1000)
        try:
            for number in range(1, num_batches + 1):
                clock.await_waiters()
                clock.advance(round(interval_s * 1000))
                wait_for(partial(self._has_completed, number), f"the end of batch {number}")
        finally:
            ssc.stop(stopSparkContext=False)

    def _has_completed(self, number: int) -> bool:
        return self._completed == number

    def onBatchCompleted(self, _event: Any) -> None:
        """Count it."""
        self._completed += 1

    def onOutputOperationCompleted(self, event: Any) -> None:
        """Note what failed."""
        info = event.outputOperationInfo
        if info.failureReason:
            self.errors[(info.batchTime - self._zero_ms) // self._interval_ms, info.id] = info.failureReason
