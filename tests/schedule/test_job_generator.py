"""``JobGenerator``: a batch at every tick, and what is done with it as a whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from penstock import StreamInputInfo
from penstock.errors import BatchFailedError
from penstock.listen.events import BatchCompleted, BatchSubmitted
from penstock.runtime.clock import ManualClock
from penstock.runtime.threads import EngineThread
from penstock.schedule.job_generator import JobGenerator

if TYPE_CHECKING:
    from tests.schedule.conftest import Engine, Gate

MakeEngine = Callable[..., "Engine"]


def nothing() -> None:
    """A job that has nothing to do."""


@pytest.fixture
def joining(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once somebody waits for the end of an engine's thread."""
    joining, finish = threading.Event(), EngineThread.finish

    def announced(thread: EngineThread, timeout_s: float | None = None) -> bool:
        joining.set()
        return finish(thread, timeout_s)

    monkeypatch.setattr(EngineThread, "finish", announced)
    return joining


def test_the_first_batch_ends_at_the_next_multiple_of_the_interval(engine: Engine, clock: ManualClock) -> None:
    clock.advance(1234)
    engine.start()
    assert engine.of("start graph") == [(1200,)]
    clock.await_waiters()
    clock.advance(65)
    clock.await_waiters()
    assert engine.of("generate") == []
    clock.advance(1)
    engine.log.await_entry(("generate", 1300))


def test_there_is_a_batch_at_each_tick(engine: Engine, clock: ManualClock) -> None:
    engine.start()
    for batch in range(100, 1100, 100):
        clock.await_waiters()
        clock.advance(100)
        engine.log.await_entry(("clear metadata", batch, True))
    assert engine.completed == list(range(100, 1100, 100))
    assert engine.errors == []


def test_a_batch_gets_its_blocks_before_its_jobs_are_made(engine: Engine, clock: ManualClock) -> None:
    engine.start()
    clock.await_waiters()
    clock.advance(100)
    engine.log.await_count(BatchSubmitted)
    order = [entry for entry in engine.log.entries if isinstance(entry, (tuple, BatchSubmitted))]
    assert order[1:3] == [("allocate", 100), ("generate", 100)]
    assert isinstance(order[3], BatchSubmitted)


def test_late_ticks_make_their_batches_back_to_back(engine: Engine, clock: ManualClock) -> None:
    engine.start()
    clock.await_waiters()
    clock.advance(1000)
    engine.log.await_count(BatchCompleted, 10)
    assert engine.of("allocate") == engine.of("generate") == [(batch,) for batch in range(100, 1100, 100)]


def test_what_the_streams_report_is_in_the_batchs_info(engine: Engine, clock: ManualClock) -> None:
    def make(time_ms: int) -> list[Callable[[], None]]:
        engine.input_info.report(time_ms, StreamInputInfo(0, time_ms))
        return [nothing]

    engine.graph.make = make
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchCompleted, 2)
    assert [event.batchInfo.numRecords for event in engine.log.of(BatchSubmitted)] == [100, 200]


@pytest.mark.parametrize("where", ["graph", "intake"])
def test_a_batch_that_cannot_be_made_is_told_and_the_next_one_runs(
    engine: Engine, clock: ManualClock, where: str
) -> None:
    def fail(time_ms: int) -> list[Callable[[], None]]:
        if time_ms == 200:
            raise ValueError("cannot be made")
        return [nothing]

    if where == "graph":
        engine.graph.make = fail
    else:
        engine.intake.on_allocate = fail
    engine.start()
    clock.await_waiters()
    clock.advance(300)
    engine.log.await_count(BatchCompleted, 3)
    assert engine.completed == [100, 200, 300]
    assert [event.batchInfo.succeeded for event in engine.log.of(BatchCompleted)] == [True, False, True]
    (error,) = engine.errors
    assert isinstance(error, BatchFailedError)
    why = {"graph": "its jobs could not be made", "intake": "its blocks could not be allocated, tries: 1"}[where]
    assert str(error) == f"batch 200 ms could not be generated, {why}: ValueError: cannot be made"
    assert isinstance(error.__cause__, ValueError)


def test_a_batch_that_is_complete_is_cleaned_up_after(engine: Engine, clock: ManualClock) -> None:
    engine.graph.remember_input_ms = 300
    engine.input_info.report(600, StreamInputInfo(0, 1))
    engine.input_info.report(700, StreamInputInfo(0, 1))
    engine.start()
    clock.await_waiters()
    clock.advance(1000)
    engine.log.await_entry(("clean up", 700, True))
    assert engine.of("clear metadata") == [(batch, True) for batch in range(100, 1100, 100)]
    assert engine.of("clean up") == [(batch - 300, True) for batch in range(100, 1100, 100)]
    while engine.input_info.info(600):
        threading.Event().wait(0.001)
    assert engine.input_info.info(700)


def test_a_batch_that_failed_is_cleaned_up_after_too(engine: Engine, clock: ManualClock) -> None:
    def fail() -> None:
        raise ValueError("a job's")

    engine.graph.make = lambda _time_ms: [fail]
    engine.start()
    clock.await_waiters()
    clock.advance(100)
    engine.log.await_entry(("clean up", 0, True))


def test_a_batch_without_jobs_is_cleaned_up_after_too(engine: Engine, clock: ManualClock) -> None:
    engine.graph.make = lambda _time_ms: []
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_entry(("clean up", 100, True))
    assert engine.events == []


def test_without_unpersist_nothing_is_deleted(make_engine: MakeEngine, clock: ManualClock) -> None:
    engine = make_engine(unpersist=False)
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_entry(("clean up", 100, False))
    assert engine.of("clear metadata") == [(100, False), (200, False)]


def test_while_a_batch_runs_its_blocks_are_kept_however_many_wait_behind_it(
    engine: Engine, clock: ManualClock, gate: Gate
) -> None:
    # Spark's JobGeneratorSuite: the third of ten batches is held.
    engine.graph.make = lambda time_ms: [gate if time_ms == 300 else nothing]
    engine.start()
    clock.await_waiters()
    clock.advance(1000)
    engine.log.await_count(BatchSubmitted, 10)
    assert gate.reached.wait(10)
    engine.log.await_entry(("clean up", 100, True))
    assert engine.completed == [100, 200]
    assert all(before_ms <= 300 for before_ms, _ in engine.of("clean up"))
    gate.open()
    engine.log.await_count(BatchCompleted, 10)


def test_a_stop_at_once_makes_no_further_batch(engine: Engine, clock: ManualClock) -> None:
    generator = engine.start()
    clock.await_waiters()
    clock.advance(100)
    engine.log.await_entry(("clean up", 0, True))
    assert generator.stop(None)
    clock.advance(1000)
    assert engine.of("generate") == [(100,)]
    assert engine.of("stop graph") == [()]


def test_a_stop_at_once_says_when_batches_are_left(engine: Engine, clock: ManualClock, gate: Gate) -> None:
    engine.graph.make = lambda _time_ms: [gate]
    generator = engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchSubmitted, 2)
    assert not generator.stop(None)
    assert engine.scheduler.pending_batches == [100, 200]


def test_a_graceful_stop_lets_a_whole_interval_pass_and_runs_what_was_made(
    engine: Engine, clock: ManualClock, joining: threading.Event
) -> None:
    generator = engine.start()
    clock.await_waiters()
    clock.advance(150)
    engine.log.await_entry(("generate", 100))
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(generator.stop, time.monotonic() + 30)
        assert joining.wait(10)
        # What was received until now belongs to the batch that ends at 200; the one after it is made to be safe.
        clock.advance(1000)
        assert stopping.result(timeout=10)
    assert engine.of("generate") == [(100,), (200,), (300,)]
    assert engine.completed == [100, 200, 300]
    assert engine.of("stop graph") == [()]


def test_a_graceful_stop_waits_for_the_batches_that_are_pending(
    engine: Engine, clock: ManualClock, gate: Gate, joining: threading.Event
) -> None:
    engine.graph.make = lambda time_ms: [gate if time_ms == 100 else nothing]
    generator = engine.start()
    clock.await_waiters()
    clock.advance(500)
    assert gate.reached.wait(10)
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(generator.stop, time.monotonic() + 30)
        assert joining.wait(10)
        clock.advance(1000)
        with pytest.raises(TimeoutError):
            stopping.result(timeout=0.02)
        gate.open()
        assert stopping.result(timeout=10)
    assert engine.completed == [100, 200, 300, 400, 500, 600, 700]


def test_a_graceful_stop_gives_up_at_its_deadline(engine: Engine, clock: ManualClock, gate: Gate) -> None:
    engine.graph.make = lambda _time_ms: [gate]
    generator = engine.start()
    clock.await_waiters()
    clock.advance(100)
    assert gate.reached.wait(10)
    before = time.monotonic()
    assert not generator.stop(before + 0.1)
    assert time.monotonic() - before < 5
    assert engine.scheduler.pending_batches == [100]


@pytest.mark.parametrize("stops_first", [True, False])
def test_nobody_waits_for_a_tick_when_all_is_abandoned(
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


def test_a_second_stop_is_harmless(engine: Engine) -> None:
    generator = engine.start()
    assert generator.stop(None)
    assert generator.stop(None)


def test_a_fresh_run_is_known_of_before_its_first_batch(engine: Engine) -> None:
    class Checkpoints:
        keeps_blocks = True
        on_cleanable: Callable[[int], object] = staticmethod(lambda _before_ms: None)

        def begin(self, zero_time_ms: int) -> None:
            engine.log.add(("begin", zero_time_ms))

        def save(self, last_time_ms: int, pending: Sequence[int], needed_ms: int) -> None:
            engine.log.add(("save", last_time_ms))

    generator = JobGenerator(
        engine.clock,
        engine.graph,
        engine.scheduler,
        engine.intake,
        engine.input_info,
        unpersist=True,
        on_error=engine.errors.append,
        checkpoints=Checkpoints(),
    )
    engine.start_scheduler()
    generator.start()
    engine.generator = generator
    # Blocks that are allocated and of no known run would be in no batch.
    assert engine.of("start graph") == engine.of("begin")
    assert not engine.of("allocate")
