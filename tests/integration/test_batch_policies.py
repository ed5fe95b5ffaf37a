"""Batches that fail or pile up, in a whole program."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.helpers import engine_of, run_in_background

from penstock import BatchCompleted, StopProgress, StreamingContext, StreamingContextState, ThreadReceiver
from penstock.errors import BatchFailedError
from penstock.receive.messages import UpdateRateLimit
from penstock.wire.client import Client

pytestmark = pytest.mark.spark

MakeSsc = Callable[..., StreamingContext]
WaitFor = Callable[..., None]


class Numbers(ThreadReceiver[int]):
    """Stores consecutive numbers reliably, a hundred a block, every 5 ms; writes down how many were accepted."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes

    def receive(self) -> None:
        number = 0
        while not self.isStopped():
            self.store_all(range(number, number + 100))
            number += 100
            with self._notes.open("a") as notes:
                notes.write(".")
            self.wait(0.005)

    def accepted(self) -> int:
        """How many numbers were accepted so far: all below this one."""
        return 100 * self._notes.stat().st_size if self._notes.exists() else 0


@pytest.fixture
def numbers(tmp_path: Path) -> Numbers:
    return Numbers(tmp_path / "accepted")


class Progress:
    """The phases of a graceful stop."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    def onStopProgress(self, stopProgress: StopProgress) -> None:
        self.phases.append(stopProgress.phase)


class Completed:
    """The batches that are complete."""

    never_drop = True

    def __init__(self) -> None:
        self.infos: list[Any] = []

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        self.infos.append(batchCompleted.batchInfo)


def paused_with_blocks(ssc: StreamingContext) -> bool:
    """The receivers have stored something, and pause."""
    tracker = engine_of(ssc).tracker
    # No event reports a pause.
    return bool(tracker._tracked.records[0].pause_reasons) and bool(tracker.blocks.state.retained())


def fail(_rdd: Any) -> None:
    raise KeyError("always")


def test_the_context_stops_after_three_consecutive_failed_batches(make_ssc: MakeSsc) -> None:
    ssc = make_ssc(conf={"spark.penstock.maxFailedBatches": "3"})
    completed = Completed()
    ssc.addStreamingListener(completed)
    ssc.queueStream([[1]] * 100).foreachRDD(fail)
    ssc.start()
    with pytest.raises(BatchFailedError, match=r"3 consecutive batches have failed .*KeyError: 'always'"):
        ssc.awaitTerminationOrTimeout(120)
    assert ssc.getState() is StreamingContextState.STOPPED
    assert len(completed.infos) >= 3
    assert all(info.succeeded is False for info in completed.infos)


def test_task_without_a_module_of_the_program_is_reported_with_executor_and_remedy(
    make_ssc: MakeSsc, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver_only = ModuleType("driver_only")
    exec("def double(number): return 2 * number", vars(driver_only))
    monkeypatch.setitem(sys.modules, "driver_only", driver_only)
    ssc = make_ssc()
    ssc.queueStream([[1]]).map(driver_only.double).pprint()
    ssc.start()
    lacks = r"the Python of executor driver on \S+ lacks the module 'driver_only': install it there, or send it with"
    with pytest.raises(BatchFailedError, match=lacks):
        ssc.awaitTerminationOrTimeout(120)


def test_a_transform_that_fails_at_first_loses_no_record(
    make_ssc: MakeSsc, collect: Any, wait_for: WaitFor, numbers: Numbers
) -> None:
    ssc = make_ssc()
    tries: Counter[Any] = Counter()

    def flaky(time: Any, rdd: Any) -> Any:
        tries[time] += 1
        if tries[time] < 3:
            raise ConnectionError("not now")
        return rdd

    completed = Completed()
    ssc.addStreamingListener(completed)
    batches = collect(ssc.receiverStream(numbers).transform(flaky))
    ssc.start()
    wait_for(lambda: len(batches.records) > 1000, "a thousand numbers")
    ssc.stop(stopSparkContext=False, stopGraceFully=True)
    assert len(batches.records) >= numbers.accepted()
    assert batches.records == list(range(len(batches.records)))
    assert set(tries.values()) == {3}
    assert all(info.succeeded for info in completed.infos)
    assert sum(info.numRecords for info in completed.infos) == len(batches.records)


class Held:
    """An output that holds the first batch with records until it is released, then collects all."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.seen = list[int]()

    def __call__(self, rdd: Any) -> None:
        numbers = rdd.collect()
        if numbers:
            assert self.released.wait(120)
        self.seen.extend(numbers)


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.released.set()


@pytest.fixture
def pause_delivered(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a receiver has answered the command to pause."""
    delivered, ask = threading.Event(), Client.ask

    def noted(client: Client, message: object, reply_kind: type[Any]) -> Any:
        reply = ask(client, message, reply_kind)
        if isinstance(message, UpdateRateLimit) and message.paused:
            delivered.set()
        return reply

    monkeypatch.setattr(Client, "ask", noted)
    return delivered


def test_receivers_pause_while_batches_pile_up_and_resume_without_loss(
    make_ssc: MakeSsc, wait_for: WaitFor, numbers: Numbers, held: Held, pause_delivered: threading.Event
) -> None:
    ssc = make_ssc(conf={"spark.penstock.maxPendingBatches": "2"})
    ssc.receiverStream(numbers).foreachRDD(held)
    ssc.start()
    wait_for(lambda: paused_with_blocks(ssc), "the pause")
    assert pause_delivered.wait(120)
    before = numbers.accepted()
    # A receiver that does not pause stores dozens of blocks while other jobs run. One store may be under way.
    for _ in range(20):
        ssc.sparkContext.parallelize([1]).count()
    assert numbers.accepted() - before <= 100
    assert len(engine_of(ssc).scheduler.pending_batches) == 2
    before = numbers.accepted()
    held.released.set()
    wait_for(lambda: len(held.seen) > before + 1000, "the receiver to resume")
    ssc.stop(stopSparkContext=False, stopGraceFully=True)
    assert len(held.seen) >= numbers.accepted()
    assert held.seen == list(range(len(held.seen)))


def test_a_graceful_stop_of_paused_receivers_processes_what_was_stored(
    make_ssc: MakeSsc, wait_for: WaitFor, numbers: Numbers, held: Held
) -> None:
    ssc = make_ssc(conf={"spark.penstock.maxPendingBatches": "1"})
    progress = Progress()
    ssc.addStreamingListener(progress)
    ssc.receiverStream(numbers).foreachRDD(held)
    ssc.start()
    wait_for(lambda: paused_with_blocks(ssc), "the pause")
    stopping = run_in_background(lambda: ssc.stop(stopSparkContext=False, stopGraceFully=True))
    wait_for(lambda: progress.phases, "the stop has begun")
    held.released.set()
    stopping.result(timeout=120)
    assert len(held.seen) >= numbers.accepted() >= 100
    assert held.seen == list(range(len(held.seen)))
