"""What becomes of batches that fail or pile up, in a whole program."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock import BatchCompleted, StreamingContext, ThreadReceiver
from penstock.context import StreamingContextState
from penstock.errors import BatchFailedError

pytestmark = pytest.mark.spark

MakeSsc = Callable[..., StreamingContext]
WaitFor = Callable[..., None]


class Numbers(ThreadReceiver[int]):
    """Stores numbers one after the other, reliably, a hundred a block, as fast as it may."""

    def receive(self) -> None:
        number = 0
        while not self.isStopped():
            self.store_all(range(number, number + 100))
            number += 100
            threading.Event().wait(0.005)


class Completed:
    """The batches that are complete."""

    never_drop = True

    def __init__(self) -> None:
        self.infos: list[Any] = []

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        self.infos.append(batchCompleted.batchInfo)


def paused_with_blocks(ssc: StreamingContext) -> bool:
    """The receivers have stored something, and pause."""
    assert ssc._engine is not None
    return ssc._engine.tracker._pauses.paused and ssc._engine.tracker.blocks.has_blocks


def fail(_rdd: Any) -> None:
    raise KeyError("always")


def test_after_so_many_failures_in_a_row_the_context_stops_itself(make_ssc: MakeSsc) -> None:
    ssc = make_ssc(conf={"spark.penstock.maxFailedBatches": "3"})
    completed = Completed()
    ssc.addStreamingListener(completed)
    ssc.queueStream([[1]] * 100).foreachRDD(fail)
    ssc.start()
    with pytest.raises(BatchFailedError, match=r"3 batches have failed in a row .*KeyError: 'always'"):
        ssc.awaitTerminationOrTimeout(30)
    assert ssc.getState() is StreamingContextState.STOPPED
    assert len(completed.infos) >= 3
    assert all(info.succeeded is False for info in completed.infos)
    assert ssc.generator_report().failed_batches == len(completed.infos)


def test_failures_below_the_limit_are_not_the_programs_end(make_ssc: MakeSsc, wait_for: WaitFor) -> None:
    ssc = make_ssc(conf={"spark.penstock.maxFailedBatches": "3"})
    ran: list[int] = []

    def two_of_three(_rdd: Any) -> None:
        ran.append(1)
        if len(ran) % 3:
            raise KeyError("often")

    ssc.queueStream([[1]] * 100).foreachRDD(two_of_three)
    ssc.start()
    wait_for(lambda: len(ran) >= 7, "seven batches")
    assert not ssc.awaitTerminationOrTimeout(0.1)
    ssc.stop(stopSparkContext=False)
    assert ssc.awaitTerminationOrTimeout(1)


def test_a_transform_that_fails_at_first_loses_no_record(make_ssc: MakeSsc, collect: Any, wait_for: WaitFor) -> None:
    ssc = make_ssc()
    tries: Counter[Any] = Counter()

    def flaky(time: Any, rdd: Any) -> Any:
        tries[time] += 1
        if tries[time] < 3:
            raise ConnectionError("not now")
        return rdd

    completed = Completed()
    ssc.addStreamingListener(completed)
    batches = collect(ssc.receiverStream(Numbers()).transform(flaky))
    ssc.start()
    wait_for(lambda: len(batches.records) > 1000, "a thousand numbers")
    ssc.stop(stopSparkContext=False, stopGraceFully=True)
    assert batches.records == list(range(len(batches.records)))
    assert set(tries.values()) == {3}
    assert all(info.succeeded for info in completed.infos)
    assert sum(info.numRecords for info in completed.infos) == len(batches.records)


def test_receivers_pause_while_batches_pile_up_and_go_on_and_nothing_is_lost(
    make_ssc: MakeSsc, wait_for: WaitFor
) -> None:
    ssc = make_ssc(conf={"spark.penstock.maxPendingBatches": "2"})
    gate, seen = threading.Event(), list[int]()

    def hold(rdd: Any) -> None:
        numbers = rdd.collect()
        # Not before the receiver is up.
        if numbers:
            gate.wait(30)
        seen.extend(numbers)

    ssc.receiverStream(Numbers()).foreachRDD(hold)
    ssc.start()
    assert ssc._engine is not None
    blocks = ssc._engine.tracker.blocks
    wait_for(lambda: paused_with_blocks(ssc), "the pause")

    def stored() -> int:
        """Blocks, when no further one has come for a while: one may be under way."""
        before = -1
        while before != len(blocks._ledger._known):
            before = len(blocks._ledger._known)
            threading.Event().wait(1.0)
        return before

    before = stored()
    assert before > 0
    assert ssc._engine is not None
    assert len(ssc._engine.scheduler.pending_batches) == 2
    gate.set()
    wait_for(lambda: len(seen) > 100 * before + 1000, "the receiver to go on")
    ssc.stop(stopSparkContext=False, stopGraceFully=True)
    assert seen == list(range(len(seen)))


def test_a_graceful_stop_of_paused_receivers_processes_what_was_stored(make_ssc: MakeSsc, wait_for: WaitFor) -> None:
    ssc = make_ssc(conf={"spark.penstock.maxPendingBatches": "1"})
    gate, seen = threading.Event(), list[int]()

    def hold(rdd: Any) -> None:
        numbers = rdd.collect()
        # Not before the receiver is up.
        if numbers:
            gate.wait(30)
        seen.extend(numbers)

    ssc.receiverStream(Numbers()).foreachRDD(hold)
    ssc.start()
    wait_for(lambda: paused_with_blocks(ssc), "the pause")
    threading.Timer(0.5, gate.set).start()
    assert ssc._engine is not None
    ssc.stop(stopSparkContext=False, stopGraceFully=True)
    assert len(seen) >= 100
    assert seen == list(range(len(seen)))
    assert not ssc._engine.tracker.blocks.has_unallocated_blocks


def test_the_oldest_batch_is_given_up_where_that_is_asked_for(make_ssc: MakeSsc, wait_for: WaitFor) -> None:
    ssc = make_ssc(conf={"spark.penstock.maxPendingBatches": "2", "spark.penstock.onMaxPendingBatches": "drop-oldest"})
    gate, completed, seen = threading.Event(), Completed(), list[int]()

    def hold(rdd: Any) -> None:
        numbers = rdd.collect()
        # Not before the receiver is up.
        if numbers:
            gate.wait(30)
        seen.extend(numbers)

    ssc.addStreamingListener(completed)
    ssc.receiverStream(Numbers()).foreachRDD(hold)
    ssc.start()
    wait_for(lambda: sum(info.succeeded is False for info in completed.infos) >= 5, "five batches given up")
    assert all(info.processingDelay is None for info in completed.infos if not info.succeeded)
    gate.set()
    wait_for(
        lambda: any(info.succeeded and info.numRecords for info in completed.infos), "a batch with records that ran"
    )
    ssc.stop(stopSparkContext=False, stopGraceFully=True)
    dropped = [info for info in completed.infos if not info.succeeded]
    ran = [info for info in completed.infos if info.succeeded]
    assert ssc.generator_report().dropped_batches == len(dropped)
    assert sum(info.numRecords for info in ran) == len(seen)
    assert len(set(seen)) == len(seen)
    # Nobody is told that the program failed.
    assert ssc.awaitTerminationOrTimeout(1)


def test_a_program_can_ask_how_the_making_of_its_batches_goes(make_ssc: MakeSsc, wait_for: WaitFor) -> None:
    ssc = make_ssc()
    ssc.queueStream([[1]] * 3).foreachRDD(lambda _rdd: None)
    assert ssc.generator_report().generation.count == 0
    ssc.start()
    wait_for(lambda: ssc.generator_report().clean_up.count >= 2, "two batches")
    report = ssc.generator_report()
    assert report.generation.count >= 2
    assert 0 < report.generation.max_ms <= report.generation.total_ms
    assert report.failed_batches == report.dropped_batches == 0
