"""``JobGenerator``: a batch at every tick: allocation, generation, clean-up, and the stops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import do_nothing

from penstock import StreamInputInfo
from penstock.errors import BatchFailedError, StreamingStateError
from penstock.listen.events import BatchCompleted, BatchSubmitted
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import Gate
    from tests.schedule.conftest import Engine

    from penstock.schedule.unfinished_batches import UnfinishedBatches

MakeEngine = Callable[..., "Engine"]


class IgnoredCheckpoints:
    def begin(self, zero_time_ms: int) -> None:
        """Nothing to save."""

    def save(self, *_checkpoint: object) -> None:
        """Nothing to save."""


def test_first_batch_time_is_the_next_multiple_of_the_interval(engine: Engine, clock: ManualClock) -> None:
    clock.advance(1234)
    engine.start()
    assert engine.of("start graph") == [(1200,)]
    clock.await_waiters()
    clock.advance(65)
    clock.await_waiters()
    assert engine.of("generate") == []
    clock.advance(1)
    engine.log.await_count(("generate", 1300))


def test_each_tick_generates_a_batch(engine: Engine, clock: ManualClock) -> None:
    engine.start()
    for batch in range(100, 1100, 100):
        clock.await_waiters()
        clock.advance(100)
        engine.log.await_count(("clear metadata", batch, True))
    assert engine.completed == list(range(100, 1100, 100))
    assert engine.errors == []


def test_blocks_are_allocated_before_jobs_are_generated(engine: Engine, clock: ManualClock) -> None:
    engine.start()
    clock.await_waiters()
    clock.advance(100)
    engine.log.await_count(BatchSubmitted)
    order = [entry for entry in engine.log.entries if isinstance(entry, (tuple, BatchSubmitted))]
    assert order[1:3] == [("allocate", 100), ("generate", 100)]
    assert isinstance(order[3], BatchSubmitted)


def test_late_ticks_generate_their_batches_back_to_back(engine: Engine, clock: ManualClock) -> None:
    engine.start()
    clock.await_waiters()
    clock.advance(1000)
    engine.log.await_count(BatchCompleted, 10)
    assert engine.of("allocate") == engine.of("generate") == [(batch,) for batch in range(100, 1100, 100)]


def test_batch_info_contains_what_input_streams_report(engine: Engine, clock: ManualClock) -> None:
    def make(time_ms: int) -> list[Callable[[], None]]:
        engine.input_info.report(time_ms, StreamInputInfo(0, time_ms))
        return [do_nothing]

    engine.graph.make = make
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchCompleted, 2)
    assert [event.batchInfo.numRecords for event in engine.log.of(BatchSubmitted)] == [100, 200]


@pytest.mark.parametrize("where", ["graph", "intake"])
def test_failed_generation_fails_the_batch_and_the_next_one_runs(
    engine: Engine, clock: ManualClock, where: str
) -> None:
    def fail(time_ms: int) -> list[Callable[[], None]]:
        if time_ms == 200:
            raise ValueError("cannot be made")
        return [do_nothing]

    if where == "graph":
        engine.graph.make = fail
    else:
        engine.batch_input.on_allocate = fail
    engine.start()
    clock.await_waiters()
    clock.advance(300)
    engine.log.await_count(BatchCompleted, 3)
    assert engine.completed == [100, 200, 300]
    assert [event.batchInfo.succeeded for event in engine.log.of(BatchCompleted)] == [True, False, True]
    (error,) = engine.errors
    assert isinstance(error, BatchFailedError)
    why = {"graph": "generating its jobs failed", "intake": "allocating its blocks failed after 3 attempts"}[where]
    assert str(error) == f"batch 1970-01-01T00:00:00.200Z could not be generated: {why}: ValueError: cannot be made"
    assert isinstance(error.__cause__, ValueError)


def test_stopped_spark_is_reported_although_a_job_that_waits_for_it_never_ends(
    engine: Engine, clock: ManualClock, gate: Gate
) -> None:
    engine.graph.make = lambda _time_ms: [gate]
    engine.start()
    clock.await_waiters()
    clock.advance(100)
    assert gate.reached.wait(30)
    engine.graph.has_spark = False
    clock.await_waiters()
    clock.advance(100)
    engine.log.await_count(("generate", 200))
    (error,) = engine.errors
    assert isinstance(error, StreamingStateError)
    assert str(error) == "the SparkContext was stopped"
    gate.open()


def test_completed_batch_is_cleaned_up(engine: Engine, clock: ManualClock) -> None:
    engine.graph.remember_input_ms = 300
    engine.input_info.report(600, StreamInputInfo(0, 1))
    engine.input_info.report(700, StreamInputInfo(0, 1))
    engine.start()
    clock.await_waiters()
    clock.advance(1000)
    engine.log.await_count(("clean up", 700, True))
    assert engine.of("clear metadata") == [(batch, True) for batch in range(100, 1100, 100)]
    assert engine.of("clean up") == [(batch - 300, True) for batch in range(100, 1100, 100)]
    assert engine.of("processed") == [(batch, []) for batch in range(100, 1100, 100)]
    engine.settle()
    assert not engine.input_info.info(600)
    assert engine.input_info.info(700)


def test_failed_batch_is_cleaned_up(engine: Engine, clock: ManualClock) -> None:
    def fail() -> None:
        raise ValueError("a job's")

    engine.graph.make = lambda _time_ms: [fail]
    engine.start()
    clock.await_waiters()
    clock.advance(100)
    engine.log.await_count(("clean up", 0, True))


def test_blocks_are_not_deleted_without_unpersist(make_engine: MakeEngine, clock: ManualClock) -> None:
    engine = make_engine(unpersist=False)
    generator = engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(("clean up", 100, False))
    assert engine.of("clear metadata") == [(100, False), (200, False)]
    generator.release_blocks(200)
    engine.log.await_count(("clean up", 200, False))


@pytest.mark.parametrize(
    ("wal", "checkpoints", "deleted"),
    [(False, False, True), (False, True, True), (True, False, True), (True, True, False)],
)
def test_blocks_stay_until_no_checkpoint_needs_them(
    make_engine: MakeEngine, clock: ManualClock, wal: bool, checkpoints: bool, deleted: bool
) -> None:
    engine = make_engine(wal=wal)
    generator = engine.start(checkpoints=IgnoredCheckpoints() if checkpoints else None)
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(("clear metadata", 200, True))
    engine.settle()
    assert bool(engine.of("clean up")) == deleted
    generator.release_blocks(150, [range(100, 101)])
    engine.log.await_count(("clean up", 150, True))
    assert engine.batch_input.retained == [range(100, 101)]


def test_stop_at_once_generates_no_further_batch(engine: Engine, clock: ManualClock) -> None:
    generator = engine.start()
    clock.await_waiters()
    clock.advance(100)
    engine.log.await_count(("clean up", 0, True))
    assert generator.stop(None)
    clock.advance(1000)
    assert engine.of("generate") == [(100,)]
    assert engine.of("stop graph") == [()]


def test_stop_at_once_reports_that_batches_remain(engine: Engine, clock: ManualClock, gate: Gate) -> None:
    engine.graph.make = lambda _time_ms: [gate]
    generator = engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchSubmitted, 2)
    assert not generator.stop(None)
    assert engine.scheduler.pending_batches == [100, 200]


def test_graceful_stop_waits_for_one_more_interval_and_runs_its_batches(
    engine: Engine, clock: ManualClock, joining: threading.Event
) -> None:
    generator = engine.start()
    clock.await_waiters()
    clock.advance(150)
    engine.log.await_count(("generate", 100))
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(generator.stop, time.monotonic() + 30)
        assert joining.wait(10)
        # What was received until now belongs to the batch that ends at 200; the one after it is made to be safe.
        clock.advance(1000)
        assert stopping.result(timeout=10)
    assert engine.of("generate") == [(100,), (200,), (300,)]
    assert engine.completed == [100, 200, 300]
    assert engine.of("stop graph") == [()]


def test_graceful_stop_waits_for_pending_batches(
    engine: Engine, clock: ManualClock, gate: Gate, joining: threading.Event
) -> None:
    engine.graph.make = lambda time_ms: [gate if time_ms == 100 else do_nothing]
    await_pending = engine.scheduler.await_pending

    def open_gate_and_wait(*arguments: Any) -> bool:
        # The first batch completes only if the stop waits for it.
        gate.open()
        return await_pending(*arguments)

    engine.scheduler.await_pending = open_gate_and_wait  # type: ignore[method-assign, assignment]
    generator = engine.start()
    clock.await_waiters()
    clock.advance(500)
    assert gate.reached.wait(10)
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(generator.stop, time.monotonic() + 30)
        assert joining.wait(10)
        clock.advance(1000)
        assert stopping.result(timeout=10)
    assert engine.completed == [100, 200, 300, 400, 500, 600, 700]


def test_graceful_stop_returns_at_its_deadline(engine: Engine, clock: ManualClock, gate: Gate) -> None:
    engine.graph.make = lambda _time_ms: [gate]
    generator = engine.start()
    clock.await_waiters()
    clock.advance(100)
    assert gate.reached.wait(10)
    before = time.monotonic()
    assert not generator.stop(before + 0.1)
    assert time.monotonic() - before < 20
    assert engine.scheduler.pending_batches == [100]


@pytest.mark.parametrize("stops_first", [True, False])
def test_abandon_ends_the_wait_for_a_tick(
    engine: Engine, clock: ManualClock, joining: threading.Event, stops_first: bool
) -> None:
    generator = engine.start()
    clock.await_waiters()
    with ThreadPoolExecutor() as pool:
        if not stops_first:
            generator.abandon()
        stopping = pool.submit(generator.stop, time.monotonic() + 30)
        assert joining.wait(10)
        if stops_first:
            generator.abandon()
        # The next tick is as far away as the interval is long.
        stopping.result(timeout=10)
    assert engine.of("generate") == []


def test_stop_may_be_repeated(engine: Engine) -> None:
    generator = engine.start()
    assert generator.stop(None)
    assert generator.stop(None)


def test_first_run_saves_zero_time_before_its_first_batch(engine: Engine) -> None:
    class Checkpoints:
        recoverable_ms = None

        def begin(self, zero_time_ms: int) -> None:
            engine.log.add(("begin", zero_time_ms))

        def save(self, batches: UnfinishedBatches, *_rest: object) -> None:
            engine.log.add(("save", batches.generated_ms))

    engine.start(checkpoints=Checkpoints())
    # Without it, a recovered run would not know that a batch has these blocks.
    assert engine.of("start graph") == engine.of("begin")
    assert not engine.of("allocate")
