"""``JobScheduler``: it runs the jobs of batches and posts the events about them."""

from __future__ import annotations

import pickle
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.helpers import Gate, await_blocked, do_nothing, run_in_background, wait_for

from penstock.errors import BatchFailedError
from penstock.listen.events import (
    BatchCompleted,
    BatchStarted,
    BatchSubmitted,
    OutputMetadata,
    OutputOperationCompleted,
    OutputOperationStarted,
)
from penstock.runtime.event_loop import EventLoop
from penstock.runtime.threads import on_engine_thread
from penstock.schedule import job_scheduler
from penstock.schedule.job_scheduler import JobScheduler
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.schedule.conftest import Engine

MakeEngine = Callable[..., "Engine"]


def fail(text: str = "boom") -> None:
    raise ValueError(text)


def names(engine: Engine) -> list[str]:
    """The events; those of output operations with their id."""
    operations = (OutputOperationStarted, OutputOperationCompleted)
    return [
        type(event).__name__ + (f"({event.outputOperationInfo.id})" if isinstance(event, operations) else "")
        for event in engine.events
    ]


def test_metadata_that_a_job_returns_is_in_its_info_and_no_other_result(engine: Engine) -> None:
    engine.start_scheduler()
    engine.submit(1000, lambda: OutputMetadata(rows=5), lambda: {"rows": 6}, fail)
    engine.log.await_count(("complete", 1000))
    (completed,) = [event for event in engine.events if isinstance(event, BatchCompleted)]
    infos = completed.batchInfo.outputOperationInfos.values()
    assert [info.metadata for info in infos] == [{"rows": 5}, {}, {}]


def test_events_are_posted_in_order(engine: Engine) -> None:
    engine.start_scheduler()
    engine.submit(1000, do_nothing, do_nothing, do_nothing)
    engine.log.await_count(("complete", 1000))
    assert names(engine) == [
        "BatchSubmitted",
        "BatchStarted",
        "OutputOperationStarted(0)",
        "OutputOperationCompleted(0)",
        "OutputOperationStarted(1)",
        "OutputOperationCompleted(1)",
        "OutputOperationStarted(2)",
        "OutputOperationCompleted(2)",
        "BatchCompleted",
    ]


def test_each_event_contains_the_times_known_so_far(engine: Engine, clock: ManualClock) -> None:
    clock.advance(1000)
    engine.start_scheduler()
    engine.submit(1000, lambda: clock.advance(30), lambda: clock.advance(20))
    engine.log.await_count(("complete", 1000))
    (submitted,), (started,), (completed,) = (
        [event.batchInfo for event in engine.log.of(kind)] for kind in (BatchSubmitted, BatchStarted, BatchCompleted)
    )
    assert (submitted.schedulingDelay, submitted.processingDelay, submitted.totalDelay) == (None, None, None)
    assert (started.schedulingDelay, started.processingDelay, started.totalDelay) == (0, None, None)
    assert (completed.schedulingDelay, completed.processingDelay, completed.totalDelay) == (0, 50, 50)
    assert [event.outputOperationInfo.endTime for event in engine.log.of(OutputOperationStarted)] == [None, None]
    assert [event.outputOperationInfo.duration for event in engine.log.of(OutputOperationCompleted)] == [30, 20]
    assert [outputOperationInfo.name for outputOperationInfo in completed.outputOperationInfos.values()] == [
        "pprint at app.py:0",
        "pprint at app.py:1",
    ]


def test_times_in_events_are_monotonic(engine: Engine, clock: ManualClock) -> None:
    engine.start_scheduler()
    for batch in range(1, 5):
        clock.advance(7)
        engine.submit(batch, lambda: clock.advance(3))
    engine.log.await_count(BatchCompleted, 4)
    infos = [event.batchInfo for event in engine.log.of(BatchCompleted)]
    for times in (
        [info.batchTime for info in infos],
        [info.submissionTime for info in infos],
        [info.processingStartTime for info in infos],
        [info.processingEndTime for info in infos],
    ):
        assert times == sorted(times)
    assert all(info.schedulingDelay >= 0 and info.processingDelay >= 3 for info in infos)


def test_batch_without_jobs_completes_at_once_without_events(engine: Engine) -> None:
    engine.start_scheduler()
    engine.submit(1000)
    assert engine.log.entries == [("complete", 1000)]
    assert engine.scheduler.pending_batches == []


@pytest.mark.parametrize("failing", [{0}, {1}, {2}, {0, 1}, {0, 1, 2}, set()], ids=str)
def test_failed_output_has_a_reason_and_the_others_run(engine: Engine, failing: set[int]) -> None:
    ran: list[int] = []

    def work(n: int) -> None:
        ran.append(n)
        if n in failing:
            fail(f"output {n} is broken")

    engine.start_scheduler()
    engine.submit(1000, *(lambda n=n: work(n) for n in range(3)))
    engine.log.await_count(("complete", 1000))
    assert ran == [0, 1, 2]
    (completed,) = engine.log.of(BatchCompleted)
    reasons = {n: each.failureReason for n, each in completed.batchInfo.outputOperationInfos.items()}
    assert {n for n, reason in reasons.items() if reason is not None} == failing
    for n in failing:
        assert f"ValueError: output {n} is broken" in reasons[n]
        assert "in work" in reasons[n]
    assert len(engine.errors) == len(failing)
    assert engine.scheduler.pending_batches == []


def test_failure_is_reported_with_output_batch_and_cause(engine: Engine) -> None:
    engine.start_scheduler()
    engine.submit(1000, do_nothing, fail)
    engine.log.await_count(("complete", 1000))
    (error,) = engine.errors
    assert isinstance(error, BatchFailedError)
    assert "output operation 1 (pprint at app.py:1) of batch 1970-01-01T00:00:01.000Z failed: ValueError: boom" in str(
        error
    )
    assert isinstance(error.__cause__, ValueError)
    # The program's own code comes first, not the engine's that calls it.
    (first, *_) = traceback.extract_tb(error.__cause__.__traceback__)
    assert first.name == "fail"
    (completed,) = engine.log.of(BatchCompleted)
    reason = completed.batchInfo.outputOperationInfos[1].failureReason
    assert reason is not None
    assert reason.splitlines()[1].endswith(", in fail")


def test_function_that_cannot_be_pickled_fails_with_advice(engine: Engine) -> None:
    def refuse() -> None:
        raise pickle.PicklingError("cannot pickle '_thread.lock' object")

    engine.start_scheduler()
    engine.submit(1000, refuse)
    engine.log.await_count(("complete", 1000))
    assert "cannot pickle '_thread.lock' object. The functions of a program travel to" in str(engine.errors[0])


def test_local_properties_are_set_before_each_job(engine: Engine) -> None:
    seen: list[tuple[str, object]] = []

    def properties(time_ms: int, output_op_id: int) -> None:
        seen.append(("properties", (time_ms, output_op_id, threading.current_thread().name)))

    def work() -> None:
        seen.append(("job", threading.current_thread().name))

    engine.properties = properties
    engine.start_scheduler()
    engine.submit(1000, work, fail)
    engine.log.await_count(("complete", 1000))
    thread = "streaming-job-executor-0"
    assert seen == [
        ("properties", (1000, 0, thread)),
        ("job", thread),
        ("properties", (1000, 1, thread)),
    ]


def test_job_fails_if_its_properties_cannot_be_set(engine: Engine) -> None:
    def properties(time_ms: int, output_op_id: int) -> None:
        fail("no such context")

    ran: list[int] = []
    engine.properties = properties
    engine.start_scheduler()
    engine.submit(1000, lambda: ran.append(1))
    engine.log.await_count(("complete", 1000))
    assert ran == []
    assert "no such context" in str(engine.errors[0])


def test_jobs_run_in_the_order_of_batches_and_outputs(engine: Engine) -> None:
    ran: list[tuple[int, int]] = []
    engine.start_scheduler()
    for batch in range(1, 21):
        engine.submit(batch, *(lambda batch=batch, n=n: ran.append((batch, n)) for n in range(3)))
    engine.log.await_count(("complete", 20))
    assert ran == [(batch, n) for batch in range(1, 21) for n in range(3)]
    assert engine.completed == list(range(1, 21))


def test_next_job_starts_while_the_loop_is_held(engine: Engine, gate: Gate) -> None:
    next_ran = threading.Event()
    # At the end of the first batch.
    engine.scheduler.start(gate)
    engine.submit(1000, do_nothing)
    engine.submit(2000, lambda: gate.reached.wait(10), next_ran.set)
    assert next_ran.wait(10)
    assert engine.completed == [1000]
    assert engine.scheduler.pending_batches == [2000]
    gate.open()
    assert engine.scheduler.await_pending(time.monotonic() + 10)


def test_concurrent_jobs_run_at_the_same_time(make_engine: MakeEngine) -> None:
    engine, meeting = make_engine(concurrent_jobs=3), threading.Barrier(3)
    engine.start_scheduler()
    engine.submit(1000, lambda: meeting.wait(10), lambda: meeting.wait(10))
    engine.submit(2000, lambda: meeting.wait(10))
    engine.log.await_count(("complete", 1000))
    engine.log.await_count(("complete", 2000))
    assert engine.errors == []
    assert names(engine).count("BatchStarted") == 2


def test_batch_with_concurrent_jobs_completes_once(make_engine: MakeEngine) -> None:
    engine = make_engine(concurrent_jobs=4)
    engine.start_scheduler()
    for batch in range(50):
        engine.submit(batch, do_nothing, fail, do_nothing, do_nothing)
    engine.log.await_count(BatchCompleted, 50)
    assert sorted(engine.completed) == list(range(50))
    assert len(engine.errors) == 50
    for event in engine.log.of(BatchCompleted):
        assert event.batchInfo.processingDelay is not None


def test_pending_batches_are_those_not_complete(engine: Engine, gate: Gate) -> None:
    engine.start_scheduler()
    engine.submit(3000, gate)
    engine.submit(1000, do_nothing)
    engine.submit(2000)
    assert gate.reached.wait(10)
    assert engine.scheduler.pending_batches == [1000, 3000]
    assert not engine.scheduler.await_pending(time.monotonic() + 0.01)
    gate.open()
    assert engine.scheduler.await_pending(time.monotonic() + 10)
    assert engine.scheduler.pending_batches == []


def test_decreases_of_the_pending_batches_are_reported_once(engine: Engine) -> None:
    gates = [Gate() for _ in range(3)]
    engine.start_scheduler()
    for batch, gate in enumerate(gates):
        engine.submit(batch, gate)
    reported: list[int] = []

    def on_progress(left: int) -> None:
        reported.append(left)
        if left:
            gates[-left].open()

    assert not engine.scheduler.await_pending(time.monotonic() + 0.01, on_progress)
    assert reported == []
    waiting = run_in_background(lambda: engine.scheduler.await_pending(time.monotonic() + 30, on_progress))
    await_blocked(JobScheduler.await_pending)
    gates[0].open()
    assert waiting.result(timeout=30) is True
    assert reported == [2, 1, 0]


def test_abandon_ends_the_wait_for_pending_batches(engine: Engine, gate: Gate) -> None:
    engine.start_scheduler()
    engine.submit(1000, gate)
    waiting = run_in_background(lambda: engine.scheduler.await_pending(time.monotonic() + 30))
    await_blocked(JobScheduler.await_pending)
    engine.scheduler.abandon()
    assert waiting.result(timeout=10) is False


def test_stop_starts_no_further_job_and_waits_for_the_running_one(engine: Engine, gate: Gate) -> None:
    ran: list[str] = []

    def first() -> None:
        gate()
        ran.append("first")

    engine.start_scheduler()
    engine.submit(1000, first, lambda: ran.append("second"))
    assert gate.reached.wait(10)
    with ThreadPoolExecutor() as pool:
        stopping = pool.submit(engine.scheduler.stop, 10)
        # Holds the race open until the stop is requested.
        wait_for(lambda: engine.scheduler._stopped, "stop is requested")
        gate.open()
        stopping.result(timeout=10)
    assert ran == ["first"]
    assert engine.scheduler.pending_batches == [1000]


def test_events_of_the_last_job_are_posted_before_stop_returns(engine: Engine) -> None:
    in_job, in_event = Gate(), Gate()
    engine.start_scheduler()
    engine.submit(1000, in_job)
    assert in_job.reached.wait(10)
    # The loop is busy while the job ends.
    engine.scheduler._loop.post(in_event)
    assert in_event.reached.wait(10)
    stopping = run_in_background(lambda: engine.scheduler.stop(10))
    in_job.open()
    await_blocked(EventLoop.stop, inside=True)
    in_event.open()
    stopping.result(timeout=10)
    assert names(engine)[-2:] == ["OutputOperationCompleted(0)", "BatchCompleted"]
    assert engine.scheduler.pending_batches == []


def test_stop_returns_at_its_timeout_while_an_event_hangs(
    engine: Engine, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_scheduler, "_LAST_EVENTS_S", 0.01)
    engine.start_scheduler()
    # No public call hangs on the loop: the event stands for one whose handler does.
    engine.scheduler._loop.post(gate)
    assert gate.reached.wait(10)
    before = time.monotonic()
    engine.scheduler.stop(0)
    assert time.monotonic() - before < 20


def test_stop_returns_at_its_timeout_while_a_job_hangs(engine: Engine, gate: Gate) -> None:
    engine.start_scheduler()
    engine.submit(1000, gate)
    assert gate.reached.wait(10)
    before = time.monotonic()
    engine.scheduler.stop(0.05)
    assert time.monotonic() - before < 20


def test_jobs_run_on_engine_threads(engine: Engine) -> None:
    said: list[bool] = []
    engine.start_scheduler()
    engine.submit(1000, lambda: said.append(on_engine_thread()))
    engine.log.await_count(("complete", 1000))
    assert said == [True]
