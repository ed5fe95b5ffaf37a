"""Rate control in a program that runs: chosen by configuration, from slow start to the capacity of the job."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock import BatchCompleted, StreamingContext, ThreadReceiver
from penstock.errors import UnknownNameError

pytestmark = pytest.mark.spark

BACKPRESSURE = "spark.streaming.backpressure.enabled"
ESTIMATOR = "spark.streaming.backpressure.rateEstimator"
# What the job can process, in records/s, but for what Spark takes for a batch.
CAPACITY = 4000


class Endless(ThreadReceiver[int]):
    """Stores as fast as it is let."""

    def receive(self) -> None:
        """Until the receiver stops, which is an error here."""
        while True:
            self.store_all(range(1000))


class Watch:
    """Keeps what the batches had, and what the receiver was held to."""

    def __init__(self) -> None:
        self.batches: list[tuple[float | None, int]] = []

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        """Note one."""
        for info in batchCompleted.batchInfo.streamIdToInputInfo.values():
            self.batches.append((info.rate_limit, info.numRecords))


def test_the_rate_of_an_endless_source_rises_from_slow_start_to_the_capacity_of_the_job(
    make_ssc: Callable[..., StreamingContext], wait_for: Callable[..., None]
) -> None:
    # Batches that are long beside what Spark takes for one, also on a busy machine.
    ssc, watch = make_ssc(0.5, {BACKPRESSURE: "true", ESTIMATOR: "model"}), Watch()
    ssc.receiverStream(Endless()).foreachRDD(lambda rdd: time.sleep(rdd.count() / CAPACITY))
    ssc.addStreamingListener(watch)
    ssc.start()

    def limits() -> list[Any]:
        return [limit for limit, _ in watch.batches]

    wait_for(lambda: max(limits(), default=0) > 0.5 * CAPACITY, "the rate has risen from its low start")
    assert limits()[0] == 4, "two records a batch"
    assert max(limits()) < 2 * CAPACITY
    # The source would have given any number.
    lasted_s = 0.5 * len(watch.batches)
    assert sum(records for _, records in watch.batches) <= max(limits()) * (lasted_s + 0.5) + 1


def test_an_unknown_estimator_is_refused_at_the_start(make_ssc: Callable[..., StreamingContext]) -> None:
    ssc = make_ssc(0.2, {BACKPRESSURE: "true", ESTIMATOR: "pit"})
    ssc.receiverStream(Endless()).foreachRDD(print)
    with pytest.raises(UnknownNameError, match=r"'pit'. Did you mean 'pid'\? Known: fixed, model, pid\."):
        ssc.start()
