"""A program whose batches are slow while a file exists, for ``test_allocation``. Prints its executors with each batch.

Arguments: the file.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from penstock import StreamingContext, StreamingListener, ThreadReceiver


class Ticking(ThreadReceiver[int]):
    """Stores a number now and then."""

    def receive(self) -> None:
        """Store until the stop."""
        while not self.wait(0.2):
            self.store(1)


class Launches(StreamingListener):
    """Prints where the receiver is started."""

    def onReceiverStarted(self, receiverStarted: Any) -> None:
        """Print the executor."""
        print("receiver on", receiverStarted.receiverInfo.executorId, flush=True)


if __name__ == "__main__":
    slow = sys.argv[1]

    def take_time(numbers: Iterable[int]) -> Iterator[int]:
        """More than the batch interval, while the file exists."""
        if Path(slow).exists():
            time.sleep(1.2)
        return iter(numbers)

    sc = SparkContext()
    sc.setLogLevel("OFF")
    ssc = StreamingContext(sc, 1)
    ssc.addStreamingListener(Launches())

    def report(rdd: Any) -> None:
        """Run the batch, print the executors."""
        rdd.mapPartitions(take_time).count()
        print("executors", *sorted(str(sc._jsc.sc().getExecutorIds().mkString(" ")).split()), flush=True)

    ssc.receiverStream(Ticking()).foreachRDD(report)
    ssc.start()
    ssc.awaitTermination()
    print("{}", flush=True)
    ssc.stop()
