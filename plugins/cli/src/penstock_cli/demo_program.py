"""The program of ``penstock demo``: a SparkContext without console output, and a word count of a receiver's records.

Imported once the demo starts, because it imports Spark. The listener runs on the bus's thread, the output operation on
a job's thread, everything else on the main thread.
"""

from __future__ import annotations

import contextlib
import operator
import os
import queue
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import FrameType
from typing import IO, Any

from attrs import evolve, frozen
from pyspark import RDD, SparkConf, SparkContext

from penstock import BatchCompleted, BatchSubmitted, PenstockError, ReceiverError, ReceiverStarted, StreamingContext
from penstock.spi import reason
from penstock_cli.demo_view import ViewedBatch
from penstock_cli.demonstrations import OutputDemonstration
from penstock_cli.line_producer import LineProducer

_LAST_LINES = 20
_TOP = 4


@frozen
class Arrival:
    """What has happened before the first record. Each change replaces it.

    Attributes:
        receiver_s: when the receiver first started or failed, by the monotonic clock; ``None`` before.
        receiver_error: the receiver's last error; empty if it has had none.
        has_records: whether a batch with records has begun.
    """

    receiver_s: float | None = None
    receiver_error: str = ""
    has_records: bool = False


class WordCount:
    """Counts the words of each batch.

    Args:
        sc: runs the jobs.
        interval_s: batch interval in seconds.
        receiver: its name.
        options: the receiver's.
        producer: of the receiver's source; begins when the receiver has started.
        output: gets the records, too.

    Raises:
        PenstockError: the StreamingContext cannot be created.
    """

    def __init__(
        self,
        sc: SparkContext,
        interval_s: float,
        receiver: str,
        options: Mapping[str, Any],
        producer: LineProducer | None = None,
        output: OutputDemonstration | None = None,
    ) -> None:
        self.ssc = StreamingContext(sc, interval_s)
        self._interval_ms = round(interval_s * 1000)
        self._producer = producer
        #: What the listener has seen of the receiver.
        self.arrival = Arrival()
        self._top_words: dict[int, tuple[tuple[str, int], ...]] = {}
        self._completed: queue.Queue[ViewedBatch] = queue.Queue()
        records = self.ssc.receiverStream(receiver, **options)
        if output is not None:
            output.attach(records)
        words = records.flatMap(lambda record: str(record).split())
        words.map(lambda word: (word, 1)).reduceByKey(operator.add).foreachRDD(self._keep_top_words)
        self.ssc.addStreamingListener(self)

    def next_batch(self, timeout_s: float) -> ViewedBatch | None:
        """The next completed batch; ``None`` after the timeout."""
        try:
            return self._completed.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def check(self) -> None:
        """Raise the error of the stream, or of the producer.

        Raises:
            PenstockError: one of them has failed.
        """
        self.ssc.awaitTerminationOrTimeout(0)
        if self._producer is not None:
            self._producer.check()

    def onReceiverStarted(self, _receiverStarted: ReceiverStarted) -> None:
        """Let the producer begin: earlier it would only slow down the start."""
        self._note_receiver(self.arrival.receiver_error)
        if self._producer is not None:
            self._producer.begin()

    def onReceiverError(self, receiverError: ReceiverError) -> None:
        """Note the error."""
        self._note_receiver(receiverError.receiverInfo.lastErrorMessage)

    def onBatchSubmitted(self, batchSubmitted: BatchSubmitted) -> None:
        """Note the first records."""
        if batchSubmitted.batchInfo.numRecords:
            self.arrival = evolve(self.arrival, has_records=True)

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        """Queue the batch with its top words."""
        info = batchCompleted.batchInfo
        limit = next((stream.rate_limit for stream in info.streamIdToInputInfo.values()), None)
        words = self._top_words.pop(info.batchTime, ())
        self._completed.put(ViewedBatch(info, self._interval_ms, limit, words))

    def _note_receiver(self, error: str) -> None:
        first_s = self.arrival.receiver_s
        self.arrival = evolve(
            self.arrival, receiver_s=time.monotonic() if first_s is None else first_s, receiver_error=error
        )

    def _keep_top_words(self, time: datetime, counts: RDD[Any]) -> None:
        top = counts.takeOrdered(_TOP, key=lambda pair: (-pair[1], pair[0]))
        self._top_words[round(time.timestamp() * 1000)] = tuple(top)


class SparkNotStartedError(PenstockError):
    """Spark did not start; the message has the reason."""


def quiet_spark(pairs: Mapping[str, str], *, verbose: bool = False) -> SparkContext:
    """Start Spark without console output. Ctrl-C then raises KeyboardInterrupt, without PySpark's job cancellation.

    Standard error is redirected at the level of the process, because some lines come from the JVM itself, where no
    log4j configuration applies.

    Args:
        pairs: the configuration.
        verbose: do not redirect the JVM's standard error.

    Raises:
        SparkNotStartedError: Spark did not start; the last lines of the JVM are printed to standard error.
        KeyboardInterrupt: Ctrl-C was pressed meanwhile.
    """
    settings = SparkConf().setAll(list(pairs.items()))
    with tempfile.TemporaryFile() as output, _DelayedInterrupt() as interrupt:
        try:
            with contextlib.nullcontext() if verbose else _redirect_stderr(output):
                sc = SparkContext(conf=settings)
        except Exception as error:
            output.seek(0)
            for line in output.read().decode(errors="replace").splitlines()[-_LAST_LINES:]:
                print(line, file=sys.stderr)
            raise SparkNotStartedError(f"Spark did not start: {reason(error)}; see: penstock doctor") from error
        if interrupt.came:
            sc.stop()
            raise KeyboardInterrupt
        return sc


class _DelayedInterrupt:
    """Delays the first Ctrl-C: PySpark interrupted while it waits for the JVM would leave the JVM running."""

    came = False

    def __enter__(self) -> _DelayedInterrupt:
        signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True


@contextlib.contextmanager
def _redirect_stderr(file: IO[bytes]) -> Iterator[None]:
    """Redirect standard error of this process meanwhile, and of the processes it starts for good."""
    sys.stderr.flush()
    own = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(own, 2)
        os.close(own)
