"""The demonstration's program: lines that make themselves, counted by word.

Owns its StreamingContext and gives each batch, once completed, with its most frequent words. The listener runs on the
bus's thread, the output on a job's, ``next_batch`` on whose thread ever waits.
"""

from __future__ import annotations

import operator
import queue
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark import RDD, SparkContext

from penstock import StreamingContext
from penstock.cli.batch_view import ViewedBatch
from penstock.listen.events import BatchCompleted

_TOP = 4
# Input streams are numbered from 0, and this program has one.
_STREAM_ID = 0


class WordCount:
    """Count the words of each batch.

    Args:
        sc: runs the jobs.
        interval_s: seconds between two batches.
        options: of the receiver ``synthetic``.

    Raises:
        PenstockError: the context cannot be made.
    """

    def __init__(self, sc: SparkContext, interval_s: float, options: Mapping[str, Any]) -> None:
        self.ssc = StreamingContext(sc, interval_s)
        self._interval_ms = self.ssc._graph.batch_interval_ms
        self._top_words: dict[int, tuple[tuple[str, int], ...]] = {}
        self._completed: queue.Queue[ViewedBatch] = queue.Queue()
        lines = self.ssc.receiverStream("synthetic", **options)
        words = lines.flatMap(lambda line: line.split())
        words.map(lambda word: (word, 1)).reduceByKey(operator.add).foreachRDD(self._keep_top_words)
        self.ssc.addStreamingListener(self)

    def next_batch(self, timeout_s: float) -> ViewedBatch | None:
        """The next completed batch; ``None`` when there is none within the time-out."""
        try:
            return self._completed.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def receiver_trouble(self) -> str:
        """The receiver's last error, empty for none."""
        return self.ssc.receiver_infos()[_STREAM_ID].lastErrorMessage

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        """Called by the bus."""
        info = batchCompleted.batchInfo
        limit = self.ssc.rate_limit(_STREAM_ID)
        words = self._top_words.pop(info.batchTime, ())
        self._completed.put(ViewedBatch(info, self._interval_ms, limit, words))

    def _keep_top_words(self, time: datetime, counts: RDD[Any]) -> None:
        top = counts.takeOrdered(_TOP, key=lambda pair: (-pair[1], pair[0]))
        self._top_words[round(time.timestamp() * 1000)] = tuple(top)
