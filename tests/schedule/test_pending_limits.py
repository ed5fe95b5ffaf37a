"""When batches pile up: no further one is made and the receivers pause, or the oldest that waits is given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from penstock import StreamInputInfo
from penstock.listen.events import BatchCompleted, BatchSubmitted, OutputOperationCompleted
from penstock.runtime.clock import ManualClock

if TYPE_CHECKING:
    from tests.schedule.conftest import Engine, Gate

MakeEngine = Callable[..., "Engine"]


def nothing() -> None:
    """A job that has nothing to do."""


def held(gate: Gate, *batches: int) -> Callable[[int], list[Callable[[], None]]]:
    """Makes jobs: those of some batches wait at the gate."""
    return lambda time_ms: [gate if time_ms in batches else nothing]


def stop_gracefully(engine: Engine, clock: ManualClock, gate: Gate) -> bool:
    """Stop while the clock goes on; open the gate once the timer is told."""
    assert engine.generator is not None
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(engine.generator.stop, time.monotonic() + 30)
        while not engine.generator._timer._stopped:
            time.sleep(0.001)
        clock.advance(1000)
        gate.open()
        return stopping.result(timeout=20)


# -- pause --


def test_at_the_limit_no_further_batch_is_made_and_the_receivers_pause(
    make_engine: MakeEngine, clock: ManualClock, gate: Gate
) -> None:
    engine = make_engine(pause_at=3)
    engine.graph.make = held(gate, 100)
    engine.start()
    clock.await_waiters()
    clock.advance(300)
    engine.log.await_count(BatchSubmitted, 3)
    engine.settle()
    # So many are pending, and none waits yet.
    assert engine.of("pause") == []
    clock.await_waiters()
    clock.advance(500)
    engine.log.await_entry(("pause", True))
    assert engine.of("generate") == [(100,), (200,), (300,)]
    gate.open()
    engine.log.await_count(BatchCompleted, 8)
    engine.log.await_entry(("pause", False))
    assert engine.completed == list(range(100, 900, 100))
    assert engine.of("generate") == [(batch,) for batch in range(100, 900, 100)]
    assert engine.of("pause") == [(True,), (False,)]


def test_with_the_limit_of_one_batch_a_program_that_keeps_up_never_pauses(
    make_engine: MakeEngine, clock: ManualClock
) -> None:
    engine = make_engine(pause_at=1)
    engine.start()
    for batch in range(100, 1100, 100):
        clock.await_waiters()
        clock.advance(100)
        engine.log.await_entry(("clear metadata", batch, True))
    assert engine.of("pause") == []


def test_while_ticks_wait_batches_are_cleaned_up(make_engine: MakeEngine, clock: ManualClock, gate: Gate) -> None:
    engine = make_engine(pause_at=2)
    engine.graph.make = held(gate, 200)
    engine.start()
    clock.await_waiters()
    clock.advance(600)
    assert gate.reached.wait(10)
    engine.log.await_entry(("clear metadata", 100, True))
    engine.log.await_entry(("pause", True))
    assert engine.of("generate") == [(100,), (200,), (300,)]


def test_a_pause_is_told_once_each_way_and_not_again_for_a_minute(
    make_engine: MakeEngine, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_engine(pause_at=1)
    gates = {batch: threading.Event() for batch in (100, 400, 70_000)}
    engine.graph.make = lambda time_ms: [lambda: gates[time_ms].wait(10)] if time_ms in gates else [nothing]
    engine.start()

    def run_until(last: int) -> None:
        while clock.now_ms() < last:
            clock.await_waiters()
            clock.advance(100)
            clock.await_waiters()
            if all(gate.is_set() for batch, gate in gates.items() if batch <= clock.now_ms()):
                engine.log.await_count(BatchCompleted, clock.now_ms() // 100)
            # Completed, and counted as no longer pending.
            engine.settle()

    for pauses, batch in enumerate(gates, 1):
        run_until(batch + 200)
        assert engine.of("pause") == [(True,), (False,)] * (pauses - 1) + [(True,)]
        gates[batch].set()
        engine.log.await_count(BatchCompleted, clock.now_ms() // 100)
        engine.settle()
        assert engine.of("pause") == [(True,), (False,)] * pauses
    told = [record.getMessage() for record in caplog.records if "receivers" in record.getMessage()]
    assert ["go on" in message for message in told] == [False, True] * 2


def test_a_graceful_stop_makes_and_runs_the_ticks_that_wait(
    make_engine: MakeEngine, clock: ManualClock, gate: Gate
) -> None:
    engine = make_engine(pause_at=1)
    engine.graph.make = held(gate, 100)
    engine.start()
    clock.await_waiters()
    clock.advance(500)
    engine.log.await_entry(("pause", True))
    assert stop_gracefully(engine, clock, gate)
    assert engine.completed == [100, 200, 300, 400, 500, 600, 700]


def test_a_graceful_stop_that_cannot_make_them_all_says_so(
    make_engine: MakeEngine, clock: ManualClock, gate: Gate
) -> None:
    engine = make_engine(pause_at=1)
    engine.graph.make = held(gate, 100)
    generator = engine.start()
    clock.await_waiters()
    clock.advance(500)
    engine.log.await_entry(("pause", True))
    assert not generator.stop(time.monotonic() + 0.1)


# -- drop-oldest --


def test_the_oldest_batch_that_has_not_begun_is_given_up(
    make_engine: MakeEngine, clock: ManualClock, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_engine(drop_at=2)

    def make(time_ms: int) -> list[Callable[[], None]]:
        engine.input_info.report(time_ms, StreamInputInfo(0, time_ms))
        return [gate if time_ms == 100 else nothing] * 2

    engine.graph.make = make
    engine.start()
    clock.await_waiters()
    clock.advance(100)
    assert gate.reached.wait(10)
    clock.await_waiters()
    clock.advance(300)
    # 200 for 300, 300 for 400.
    engine.log.await_count(BatchCompleted, 2)
    assert engine.completed == [200, 300]
    assert engine.scheduler.pending_batches == [100, 400]
    assert engine.scheduler.dropped_batches == 2
    dropped = engine.log.of(BatchCompleted)[0].batchInfo
    assert (dropped.succeeded, dropped.numRecords) == (False, 200)
    # Rate control leaves out what has no processing delay.
    assert (dropped.processingDelay, dropped.schedulingDelay) == (None, None)
    operations = [event.outputOperationInfo for event in engine.log.of(OutputOperationCompleted)]
    assert [(each.batchTime, each.id) for each in operations] == [(200, 0), (200, 1), (300, 0), (300, 1)]
    assert all("was given up before it began: 2 batches were pending" in each.failureReason for each in operations)
    told = [record.getMessage() for record in caplog.records if "batch dropped" in record.getMessage()]
    assert ["records=200" in message for message in told] == [True, False]
    gate.open()
    engine.log.await_count(BatchCompleted, 4)
    engine.settle()
    assert engine.completed == [200, 300, 100, 400]
    assert engine.scheduler.pending_batches == []
    assert engine.scheduler.failed_batches == 0
    assert engine.errors == []
    assert engine.of("pause") == []


def test_when_all_pending_batches_run_none_is_given_up(make_engine: MakeEngine, clock: ManualClock) -> None:
    engine, meeting, release = make_engine(concurrent_jobs=2, drop_at=2), threading.Barrier(3), threading.Event()

    def hold() -> None:
        meeting.wait(10)
        release.wait(10)

    engine.graph.make = lambda time_ms: [hold] if time_ms <= 200 else [nothing]
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    meeting.wait(10)
    clock.await_waiters()
    clock.advance(100)
    engine.log.await_count(BatchSubmitted, 3)
    assert engine.scheduler.pending_batches == [100, 200, 300]
    assert engine.scheduler.dropped_batches == 0
    release.set()
    engine.log.await_count(BatchCompleted, 3)


def test_what_was_given_up_is_kept_until_a_batch_after_it_has_run_and_then_cleaned_up(
    make_engine: MakeEngine, clock: ManualClock
) -> None:
    # A state's or a window's RDD of batch 400 is computed from those of 200 and 300, which never ran.
    engine, gates = make_engine(drop_at=2), {100: threading.Event(), 400: threading.Event()}
    engine.graph.make = lambda time_ms: [lambda: gates[time_ms].wait(10)] if time_ms in gates else [nothing]
    engine.start()
    clock.await_waiters()
    clock.advance(100)
    while not any(job_set.has_begun for job_set in engine.scheduler._pending.values()):
        time.sleep(0.001)
    clock.await_waiters()
    clock.advance(300)
    engine.log.await_count(BatchCompleted, 2)
    gates[100].set()
    engine.log.await_entry(("clean up", 0, True))
    engine.settle()
    assert all(before_ms <= 200 for before_ms, _ in engine.of("clean up"))
    assert all(time_ms <= 100 for time_ms, _ in engine.of("clear metadata"))
    gates[400].set()
    engine.log.await_entry(("clean up", 300, True))
    engine.log.await_entry(("clear metadata", 400, True))


def test_while_a_batch_hangs_those_given_up_leave_nothing_behind(engine: Engine, make_engine: MakeEngine) -> None:
    engine, gate = make_engine(drop_at=3), threading.Event()
    engine.start_scheduler()
    engine.submit(0, lambda: gate.wait(30))
    while not engine.scheduler._pending[0].has_begun:
        time.sleep(0.001)
    for batch in range(1, 1000):
        engine.submit(batch, nothing, nothing)
    assert engine.scheduler.pending_batches == [0, 998, 999]
    assert len(engine.scheduler._jobs) == 4
    gate.set()
    engine.log.await_entry(("complete", 999))
    assert engine.scheduler.dropped_batches == 997


def test_a_graceful_stop_runs_what_is_pending(make_engine: MakeEngine, clock: ManualClock, gate: Gate) -> None:
    engine = make_engine(drop_at=2)
    engine.graph.make = held(gate, 100)
    engine.start()
    clock.await_waiters()
    clock.advance(100)
    assert gate.reached.wait(10)
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchSubmitted, 3)
    assert stop_gracefully(engine, clock, gate)
    engine.scheduler.stop(5)
    assert sorted(engine.completed) == [100, 200, 300, 400, 500]
    assert engine.scheduler.pending_batches == []


# -- no limit --


def test_by_default_batches_pile_up_as_in_spark(engine: Engine, clock: ManualClock, gate: Gate) -> None:
    engine.graph.make = held(gate, 100)
    engine.start()
    clock.await_waiters()
    clock.advance(5000)
    engine.log.await_count(BatchSubmitted, 50)
    assert len(engine.scheduler.pending_batches) == 50
    assert engine.of("pause") == []
