"""Failed batches: they wait for a restart, or run again, and hold up no later batch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import do_nothing, wait_for
from tests.schedule.conftest import INTERVAL_MS
from tests.schedule.test_recovered_batches import RecordingCheckpoints, Saved

from penstock.errors import BatchFailedError
from penstock.listen.events import BatchCompleted, OutputOperationCompleted
from penstock.runtime.event_loop import EventLoop
from penstock.schedule import job_scheduler

if TYPE_CHECKING:
    from tests.schedule.conftest import Engine

    from penstock_testing import ManualClock

MakeEngine = Callable[..., "Engine"]


def fail() -> None:
    raise ValueError("boom")


class Sink:
    """Fails until it is repaired; counts the calls."""

    def __init__(self) -> None:
        self.is_broken = True
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.is_broken:
            fail()


def awaiting_rerun(engine: Engine) -> list[int]:
    """The batches whose events say that they run again."""
    infos = (completed.batchInfo for completed in engine.log.of(BatchCompleted))
    return [info.batchTime for info in infos if info.awaits_rerun]


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_scheduler, "_FIRST_DELAY_MS", 1.0)
    monkeypatch.setattr(job_scheduler, "_LONGEST_DELAY_MS", 5.0)


def test_failed_batch_waits_for_a_restart_if_there_is_a_checkpoint(make_engine: MakeEngine) -> None:
    engine = make_engine(is_recoverable=True)
    engine.start_scheduler()
    for batch, work in enumerate([do_nothing, fail, do_nothing, fail], 1):
        engine.submit(batch, work)
    engine.log.await_count(("complete", 4))
    assert engine.scheduler.failed_batches == [2, 4]
    assert awaiting_rerun(engine) == [2, 4]
    # They hold up neither later batches nor a graceful stop.
    assert engine.scheduler.pending_batches == []
    assert engine.scheduler.unfinished() == (frozenset(), frozenset(), frozenset({2, 4}))
    assert engine.scheduler.await_pending(time.monotonic())


def test_failed_batch_is_complete_without_a_checkpoint(engine: Engine) -> None:
    engine.start_scheduler()
    engine.submit(1, fail)
    engine.log.await_count(("complete", 1))
    assert engine.scheduler.failed_batches == []
    assert awaiting_rerun(engine) == []


@pytest.mark.parametrize("is_recoverable", [False, True])
def test_only_failed_outputs_run_again_until_they_succeed(make_engine: MakeEngine, is_recoverable: bool) -> None:
    engine = make_engine(is_recoverable=is_recoverable, on_failed="retry")
    engine.start_scheduler()
    broken, sound = Sink(), Sink()
    sound.is_broken = False
    engine.submit(1, sound, broken)
    engine.log.await_count(OutputOperationCompleted, 4)
    assert engine.scheduler.failed_batches == [1]
    broken.is_broken = False
    # The batch is complete for the second time.
    engine.log.await_count(("complete", 1), 2)
    assert engine.scheduler.failed_batches == []
    assert sound.calls == 1
    assert broken.calls >= 4
    (completed,) = engine.log.of(BatchCompleted)
    assert completed.batchInfo.succeeded is False
    assert completed.batchInfo.awaits_rerun
    assert len(engine.errors) == 1


def test_failed_batches_take_turns(make_engine: MakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="penstock")
    engine, ran, is_broken = make_engine(on_failed="retry"), list[int](), threading.Event()
    is_broken.set()

    def write(batch: int) -> None:
        ran.append(batch)
        if is_broken.is_set():
            fail()

    engine.start_scheduler()
    for batch in (1, 2):
        engine.submit(batch, partial(write, batch))
    engine.log.await_count(OutputOperationCompleted, 6)
    is_broken.clear()
    for batch in (1, 2):
        engine.log.await_count(("complete", batch), 2)
    assert ran[:6] == [1, 2] * 3
    logged = [record.getMessage() for record in caplog.records if "failed batch succeeded" in record.getMessage()]
    assert [f"reruns={ran.count(batch) - 1}" in message for batch, message in zip(ran[-2:], logged, strict=True)] == [
        True,
        True,
    ]


def test_failed_batches_run_again_one_at_a_time_and_later_batches_overtake(make_engine: MakeEngine) -> None:
    engine = make_engine(on_failed="retry")
    engine.start_scheduler()
    sink, order = Sink(), list[int]()

    def output(batch: int) -> Callable[[], None]:
        def write() -> None:
            sink()
            order.append(batch)

        return write

    for batch in range(1, 21):
        engine.submit(batch, output(batch))
    engine.submit(21, do_nothing)
    engine.log.await_count(("complete", 21))
    before = sink.calls
    assert before < 30
    sink.is_broken = False
    for batch in range(1, 21):
        engine.log.await_count(("complete", batch), 2)
    assert sorted(order) == list(range(1, 21))


def test_output_that_could_not_be_generated_is_left_to_a_restart(make_engine: MakeEngine) -> None:
    engine = make_engine(on_failed="retry", is_recoverable=True)
    calls = []

    def not_generated() -> None:
        calls.append(1)
        raise BatchFailedError("output operation 0 of batch 1 ms failed: its RDD could not be generated")

    engine.start_scheduler()
    engine.submit(1, not_generated)
    engine.submit(2, fail)
    # Each failed batch runs again before any of them does so for the second time.
    engine.log.await_count(OutputOperationCompleted, 4)
    assert engine.scheduler.failed_batches == [1, 2]
    assert awaiting_rerun(engine) == [1, 2]
    assert calls == [1]


def test_delay_grows_until_a_failed_batch_succeeds(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_scheduler, "_LONGEST_DELAY_MS", 1e6)
    engine, sinks, delays_ms = make_engine(on_failed="retry"), [Sink(), Sink()], list[float]()

    post_later = EventLoop.post_later

    def post_at_once(loop: EventLoop[Any], delay_ms: float, event: Callable[[], None]) -> None:
        if delay_ms:
            delays_ms.append(delay_ms)
        post_later(loop, 0, event)

    def has_failed(count: int) -> bool:
        return len(delays_ms) >= count

    monkeypatch.setattr(EventLoop, "post_later", post_at_once)
    engine.start_scheduler()
    for batch, sink in enumerate(sinks, 1):
        before = len(delays_ms)
        engine.submit(batch, sink)
        wait_for(partial(has_failed, before + 8), "the batch has failed 8 times")
        # Each delay is 50 to 100 % of twice the one before.
        assert delays_ms[before] <= 1 < 64 <= delays_ms[before + 7]
        sink.is_broken = False
        engine.log.await_count(("complete", batch), 2)


def test_program_stops_with_the_error_of_a_failed_batch(make_engine: MakeEngine) -> None:
    engine = make_engine(on_failed="stop", max_failed=5, is_recoverable=True)
    engine.start_scheduler()
    engine.submit(1, do_nothing)
    engine.submit(2, fail)
    engine.log.await_count(("complete", 2))
    (error,) = engine.gave_up
    assert "output operation 0" in str(error)
    assert "ValueError: boom" in str(error)
    assert engine.scheduler.failed_batches == [2]


def test_limit_of_consecutive_failures_counts_a_batch_once(make_engine: MakeEngine) -> None:
    engine = make_engine(on_failed="retry", max_failed=3)
    engine.start_scheduler()
    engine.submit(1, fail)
    engine.log.await_count(OutputOperationCompleted, 6)
    assert engine.gave_up == []


def test_failed_batch_is_in_every_later_checkpoint_and_needs_no_younger_blocks(
    make_engine: MakeEngine, clock: ManualClock
) -> None:
    engine = make_engine(wal=True, is_recoverable=True)
    engine.graph.make = lambda time_ms: [fail if time_ms == 300 else do_nothing]
    checkpoints = RecordingCheckpoints(engine.log)
    generator = engine.start(checkpoints=checkpoints)
    for _ in range(10):
        clock.await_waiters()
        clock.advance(INTERVAL_MS)
    engine.log.await_count(("clear metadata", 1000, True))
    engine.settle()
    assert generator.stop(None)
    saved = engine.log.of(Saved)
    after = [checkpoint for checkpoint in saved if checkpoint.last_time_ms >= 300]
    assert all(300 in checkpoint.pending for checkpoint in after)
    assert saved[-1].pending == (300,)
    assert checkpoints.failed == [300]
    assert saved[-1].needed_ms == 1000 - INTERVAL_MS


def test_failed_batch_that_runs_again_keeps_its_blocks_without_a_checkpoint(
    make_engine: MakeEngine, clock: ManualClock
) -> None:
    engine = make_engine(on_failed="retry")
    engine.graph.remember_input_ms = 2 * INTERVAL_MS
    sink = Sink()
    engine.graph.make = lambda time_ms: [sink if time_ms == 300 else do_nothing]
    engine.start()
    for _ in range(10):
        clock.await_waiters()
        clock.advance(INTERVAL_MS)
    engine.log.await_count(("clean up", 800, True))
    assert engine.batch_input.retained == [range(100, 301)]
    assert ("processed", 1000, [300]) in engine.log.entries
    sink.is_broken = False
    engine.log.await_count(("clean up", 800, True), 2)
    assert engine.batch_input.retained == []


@pytest.mark.parametrize("wal", [False, True])
def test_failed_batch_keeps_no_blocks_that_nobody_could_read_again(
    make_engine: MakeEngine, clock: ManualClock, wal: bool
) -> None:
    engine = make_engine(wal=wal, is_recoverable=True)
    engine.graph.make = lambda time_ms: [fail if time_ms == 100 else do_nothing]
    engine.start()
    for _ in range(3):
        clock.await_waiters()
        clock.advance(INTERVAL_MS)
    engine.log.await_count(("clear metadata", 300, True))
    assert engine.batch_input.retained == []
    assert engine.of("processed") == [(batch, []) for batch in (100, 200, 300)]
