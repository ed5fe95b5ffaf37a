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
# Of the job, records/s.
CAPACITY = 5000


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


def test_a_source_without_end_is_held_to_what_the_job_can_do(
    make_ssc: Callable[..., StreamingContext], wait_for: Callable[..., None]
) -> None:
    ssc, watch = make_ssc(0.2, {BACKPRESSURE: "true", ESTIMATOR: "model"}), Watch()
    ssc.receiverStream(Endless()).foreachRDD(lambda rdd: time.sleep(rdd.count() / CAPACITY))
    ssc.addStreamingListener(watch)
    ssc.start()

    def limits() -> list[Any]:
        return [limit for limit, _ in watch.batches]

    wait_for(lambda: max(limits(), default=0) > 0.1 * CAPACITY, "the rate has risen from its low start")
    assert limits()[0] == 10
    assert max(limits()) < 2 * CAPACITY
    # The source would have given any number.
    lasted_s = 0.2 * len(watch.batches)
    assert sum(records for _, records in watch.batches) <= max(limits()) * (lasted_s + 0.2) + 1


def test_an_unknown_estimator_is_refused_at_the_start(make_ssc: Callable[..., StreamingContext]) -> None:
    ssc = make_ssc(0.2, {BACKPRESSURE: "true", ESTIMATOR: "pit"})
    ssc.receiverStream(Endless()).foreachRDD(print)
    with pytest.raises(UnknownNameError, match=r"'pit'. Did you mean 'pid'\? Known: fixed, model, pid\."):
        ssc.start()
