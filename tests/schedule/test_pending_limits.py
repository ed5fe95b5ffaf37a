"""The limit of pending batches: generation and receivers pause, or the oldest waiting batch is dropped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.helpers import do_nothing, wait_for

from penstock import StreamInputInfo
from penstock.listen.events import BatchCompleted, BatchSubmitted, OutputOperationCompleted
from penstock.runtime.log import throttle
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import Gate
    from tests.schedule.conftest import Engine

MakeEngine = Callable[..., "Engine"]


def held(gate: Gate, *batches: int) -> Callable[[int], list[Callable[[], None]]]:
    """A job for each batch; those of the given batches wait at the gate."""
    return lambda time_ms: [gate if time_ms in batches else do_nothing]


def stop_gracefully(engine: Engine, clock: ManualClock, gate: Gate) -> bool:
    """Stop while the clock advances; open the gate once the timer stops."""
    assert engine.generator is not None
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(engine.generator.stop, time.monotonic() + 30)
        # Holds the race open until the stop is requested.
        wait_for(lambda: engine.generator is None or engine.generator._timer._stopped, "the timer stops", poll_s=0.001)
        clock.advance(1000)
        gate.open()
        return stopping.result(timeout=20)


# -- pause --


def test_generation_and_receivers_pause_at_the_limit(make_engine: MakeEngine, clock: ManualClock, gate: Gate) -> None:
    engine = make_engine(pause_at=3)
    engine.graph.make = held(gate, 100)
    engine.start()
    clock.await_waiters()
    clock.advance(300)
    engine.log.await_count(BatchSubmitted, 3)
    engine.settle()
    # The limit is reached, and no batch waits yet.
    assert engine.of("pause") == []
    clock.await_waiters()
    clock.advance(500)
    engine.log.await_count(("pause", True))
    assert engine.of("generate") == [(100,), (200,), (300,)]
    gate.open()
    engine.log.await_count(BatchCompleted, 8)
    engine.log.await_count(("pause", False))
    assert engine.completed == list(range(100, 900, 100))
    assert engine.of("generate") == [(batch,) for batch in range(100, 900, 100)]
    assert engine.of("pause") == [(True,), (False,)]


def test_program_that_keeps_up_never_pauses(make_engine: MakeEngine, clock: ManualClock) -> None:
    engine = make_engine(pause_at=1)
    engine.start()
    for batch in range(100, 1100, 100):
        clock.await_waiters()
        clock.advance(100)
        engine.log.await_count(("clear metadata", batch, True))
    assert engine.of("pause") == []


def test_completed_batches_are_cleaned_up_during_a_pause(
    make_engine: MakeEngine, clock: ManualClock, gate: Gate
) -> None:
    engine = make_engine(pause_at=2)
    engine.graph.make = held(gate, 200)
    engine.start()
    clock.await_waiters()
    clock.advance(600)
    assert gate.reached.wait(10)
    engine.log.await_count(("clear metadata", 100, True))
    engine.log.await_count(("pause", True))
    assert engine.of("generate") == [(100,), (200,), (300,)]


def test_pause_and_resume_are_logged_once_a_minute(
    make_engine: MakeEngine, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    throttle.reset(clock)
    engine = make_engine(pause_at=1)
    gates = {batch: threading.Event() for batch in (100, 400, 70_000)}
    engine.graph.make = lambda time_ms: [lambda: gates[time_ms].wait(10)] if time_ms in gates else [do_nothing]
    engine.start()

    def run_until(last: int) -> None:
        while clock.now_ms() < last:
            clock.await_waiters()
            clock.advance(100)
            clock.await_waiters()
            if all(gate.is_set() for batch, gate in gates.items() if batch <= clock.now_ms()):
                engine.log.await_count(BatchCompleted, clock.now_ms() // 100)
            # Now the completed batch is not pending any more.
            engine.settle()

    for pauses, batch in enumerate(gates, 1):
        run_until(batch + 200)
        assert engine.of("pause") == [(True,), (False,)] * (pauses - 1) + [(True,)]
        gates[batch].set()
        engine.log.await_count(BatchCompleted, clock.now_ms() // 100)
        engine.settle()
        assert engine.of("pause") == [(True,), (False,)] * pauses
    logged = [record.getMessage() for record in caplog.records if "receivers" in record.getMessage()]
    assert ["resumed" in message for message in logged] == [False, True] * 2


def test_graceful_stop_generates_and_runs_waiting_ticks(
    make_engine: MakeEngine, clock: ManualClock, gate: Gate
) -> None:
    engine = make_engine(pause_at=1)
    engine.graph.make = held(gate, 100)
    engine.start()
    clock.await_waiters()
    clock.advance(500)
    engine.log.await_count(("pause", True))
    assert stop_gracefully(engine, clock, gate)
    assert engine.completed == [100, 200, 300, 400, 500, 600, 700]


def test_graceful_stop_reports_ticks_that_remain(make_engine: MakeEngine, clock: ManualClock, gate: Gate) -> None:
    engine = make_engine(pause_at=1)
    engine.graph.make = held(gate, 100)
    generator = engine.start()
    clock.await_waiters()
    clock.advance(500)
    engine.log.await_count(("pause", True))
    assert not generator.stop(time.monotonic() + 0.1)


# -- drop-oldest --


def test_oldest_batch_that_has_not_started_is_dropped(
    make_engine: MakeEngine, clock: ManualClock, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_engine(drop_at=2)

    def make(time_ms: int) -> list[Callable[[], None]]:
        engine.input_info.report(time_ms, StreamInputInfo(0, time_ms))
        return [gate if time_ms == 100 else do_nothing] * 2

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
    # Rate control ignores batches without a processing delay.
    assert (dropped.processingDelay, dropped.schedulingDelay) == (None, None)
    operations = [event.outputOperationInfo for event in engine.log.of(OutputOperationCompleted)]
    assert [(operation.batchTime, operation.id) for operation in operations] == [(200, 0), (200, 1), (300, 0), (300, 1)]
    assert all(
        "was dropped before it started: 2 batches were pending" in operation.failureReason for operation in operations
    )
    logged = [record.getMessage() for record in caplog.records if "batch dropped" in record.getMessage()]
    assert ["records=200" in message for message in logged] == [True, False]
    gate.open()
    engine.log.await_count(BatchCompleted, 4)
    engine.settle()
    assert engine.completed == [200, 300, 100, 400]
    assert engine.scheduler.pending_batches == []
    assert engine.errors == []
    assert engine.gave_up == []
    assert engine.of("pause") == []


def test_running_batches_are_not_dropped(make_engine: MakeEngine, clock: ManualClock) -> None:
    engine, meeting, release = make_engine(concurrent_jobs=2, drop_at=2), threading.Barrier(3), threading.Event()

    def hold() -> None:
        meeting.wait(10)
        release.wait(10)

    engine.graph.make = lambda time_ms: [hold] if time_ms <= 200 else [do_nothing]
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


def test_data_of_dropped_batches_is_deleted_after_the_next_batch_has_run(
    make_engine: MakeEngine, clock: ManualClock
) -> None:
    # A state's or a window's RDD of batch 400 is computed from those of 200 and 300, which never ran.
    engine, gates = make_engine(drop_at=2), {100: threading.Event(), 400: threading.Event()}
    reached = threading.Event()

    def hold(time_ms: int) -> None:
        reached.set()
        assert gates[time_ms].wait(30)

    def make(time_ms: int) -> list[Callable[[], None]]:
        if time_ms == 500:
            return []
        return [partial(hold, time_ms)] if time_ms in gates else [do_nothing]

    engine.graph.make = make
    engine.start()
    clock.await_waiters()
    clock.advance(100)
    assert reached.wait(10)
    clock.await_waiters()
    clock.advance(300)
    engine.log.await_count(BatchCompleted, 2)
    gates[100].set()
    engine.log.await_count(("clean up", 0, True))
    # A batch without jobs is complete at once.
    clock.await_waiters()
    clock.advance(100)
    engine.log.await_count(("generate", 500))
    engine.settle()
    assert all(before_ms <= 100 for before_ms, _ in engine.of("clean up"))
    assert all(time_ms <= 100 for time_ms, _ in engine.of("clear metadata"))
    gates[400].set()
    engine.log.await_count(("clean up", 400, True))
    engine.log.await_count(("clear metadata", 500, True))


def test_dropped_batches_leave_nothing_behind_while_a_batch_hangs(make_engine: MakeEngine, gate: Gate) -> None:
    engine = make_engine(drop_at=3)
    engine.start_scheduler()
    engine.submit(0, gate)
    assert gate.reached.wait(10)
    for batch in range(1, 1000):
        engine.submit(batch, do_nothing, do_nothing)
    assert engine.scheduler.pending_batches == [0, 998, 999]
    # No public name for a leak: jobs of dropped batches.
    assert len(engine.scheduler._jobs) == 4
    gate.open()
    engine.log.await_count(("complete", 999))
    assert engine.scheduler.dropped_batches == 997


def test_graceful_stop_runs_pending_batches(make_engine: MakeEngine, clock: ManualClock, gate: Gate) -> None:
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


def test_pending_batches_are_not_limited_by_default(engine: Engine, clock: ManualClock, gate: Gate) -> None:
    engine.graph.make = held(gate, 100)
    engine.start()
    clock.await_waiters()
    clock.advance(5000)
    engine.log.await_count(BatchSubmitted, 50)
    assert len(engine.scheduler.pending_batches) == 50
    assert engine.of("pause") == []
