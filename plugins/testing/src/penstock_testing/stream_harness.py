"""``StreamHarness``: runs an operation on input lists under a manual clock and returns the batches that come out.

Each run has its own StreamingContext. It never sleeps: the harness advances the clock when the last batch has run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from pyspark import RDD, SparkContext

from penstock import BatchCompleted, DStream, StreamingContext
from penstock.spi import DStreamGraph, InputDStream
from penstock_testing.manual_clock import ManualClock

Batches = Sequence[Sequence[Any]]

# Only a run that hangs reaches it.
_DEADLINE_S = 60.0


class StreamHarness:
    """Runs operations on lists.

    Args:
        sc: runs the jobs.
        batch_interval_s: the batch interval in seconds of the manual clock.
        checkpoint_directory: the checkpoint directory, which stateful operations need.
    """

    def __init__(
        self, sc: SparkContext, batch_interval_s: float = 1.0, checkpoint_directory: str | None = None
    ) -> None:
        self._sc = sc
        self._batch_interval_s = batch_interval_s
        self._checkpoint_directory = checkpoint_directory

    def run(
        self, operation: Callable[..., DStream[Any]], *inputs: Batches, num_batches: int | None = None
    ) -> list[list[Any]]:
        """Run an operation on one or more streams.

        Args:
            operation: gets a stream for each input and returns the stream to collect.
            inputs: the batches of each stream; further batches are empty.
            num_batches: the number of batches to run; by default that of the longest input.

        Returns:
            The records of each batch of the operation's stream; a stream that slides by several batches has fewer.

        Raises:
            BatchFailedError: a batch failed.
            TimeoutError: a batch did not end within 60 s.
        """
        clock = ManualClock()
        ssc = StreamingContext(self._sc, self._batch_interval_s, clock=clock)
        if self._checkpoint_directory is not None:
            ssc.checkpoint(self._checkpoint_directory)
        # By time: with concurrent jobs, batches may end in another order.
        collected: dict[datetime, list[Any]] = {}
        done = _Completed()
        streams: list[DStream[Any]] = [DStream(_ListInputDStream(ssc._graph, batches), ssc) for batches in inputs]
        stream = operation(*streams)
        if not isinstance(stream, DStream):
            raise TypeError(f"the operation must return the stream to collect, not {type(stream).__name__}")
        stream.foreachRDD(lambda time, rdd: collected.update({time: rdd.collect()}))
        # A second output, so that every batch has a job and completes.
        DStream(_ListInputDStream(ssc._graph, []), ssc).foreachRDD(lambda _rdd: None)
        ssc.addStreamingListener(done)
        ssc.start()
        try:
            for number in range(1, (num_batches or max(map(len, inputs))) + 1):
                clock.await_waiters()
                clock.advance(ssc._graph.batch_interval_ms)
                done.await_count(number)
            # The last batch's events, its errors among them, follow its last job.
            ssc.stop(stopSparkContext=False)
            ssc.awaitTermination()
        finally:
            ssc.stop(stopSparkContext=False)
        return [batch for _time, batch in sorted(collected.items())]


class _ListInputDStream(InputDStream):
    """The n-th batch is the n-th list, also when a window asks for it late."""

    def __init__(self, graph: DStreamGraph, batches: Batches) -> None:
        super().__init__(graph)
        self._batches = batches

    def compute(self, time_ms: int) -> RDD[Any]:
        number = (time_ms - self._zero_ms()) // self.slide_ms - 1
        return self._sc.parallelize(self._batches[number] if number < len(self._batches) else ())


class _Completed:
    """Counts completed batches."""

    never_drop = True

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def onBatchCompleted(self, _batchCompleted: BatchCompleted) -> None:
        """Count it."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def await_count(self, count: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._count >= count, _DEADLINE_S):
                raise TimeoutError(f"batch {count} has not ended within {_DEADLINE_S:g} s")
