"""The outcome of batches, and the limit of consecutive failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.helpers import do_nothing, wait_for

from penstock import StreamInputInfo
from penstock.errors import BatchFailedError
from penstock.graph.call_site import CallSite
from penstock.graph.outputs import Job
from penstock.listen.events import BatchCompleted, BatchStarted, BatchSubmitted
from penstock.schedule.input_info_tracker import InputInfoTracker
from penstock.schedule.job_scheduler import JobSet
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import Gate
    from tests.schedule.conftest import Engine

MakeEngine = Callable[..., "Engine"]


def fail() -> None:
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("works", "succeeded"),
    [
        ([do_nothing], True),
        ([fail], False),
        ([fail, do_nothing], False),
        ([do_nothing, fail], False),
        ([do_nothing] * 3, True),
    ],
)
def test_batch_info_has_an_outcome_only_when_the_batch_is_complete(
    engine: Engine, works: list[Callable[[], None]], succeeded: bool
) -> None:
    engine.start_scheduler()
    engine.submit(1000, *works)
    engine.log.await_count(("complete", 1000))
    outcomes = [
        [event.batchInfo.succeeded for event in engine.log.of(kind)]
        for kind in (BatchSubmitted, BatchStarted, BatchCompleted)
    ]
    assert outcomes == [[None], [None], [succeeded]]
    assert engine.scheduler.pending_batches == []


def test_failed_batches_are_not_limited_by_default(engine: Engine) -> None:
    engine.start_scheduler()
    for batch in range(1, 31):
        engine.submit(batch, fail if batch % 3 else do_nothing)
    engine.log.await_count(("complete", 30))
    assert sum(not event.batchInfo.succeeded for event in engine.log.of(BatchCompleted)) == 20
    assert engine.gave_up == []


def test_program_is_given_up_after_the_maximum_of_consecutive_failures(make_engine: MakeEngine) -> None:
    engine = make_engine(max_failed=3)
    engine.start_scheduler()
    for batch, work in enumerate([fail, fail, do_nothing, fail, fail, fail, fail, fail], 1):
        engine.submit(batch, work)
    engine.log.await_count(("complete", 8))
    (error,) = engine.gave_up
    assert isinstance(error, BatchFailedError)
    assert (
        "3 consecutive batches have failed (spark.penstock.maxFailedBatches), the last one at 1970-01-01T00:00:00.006Z"
        in str(error)
    )
    assert "ValueError: boom" in str(error)
    assert isinstance(error.__cause__, BatchFailedError)
    assert isinstance(error.__cause__.__cause__, ValueError)


def test_batch_without_jobs_does_not_count_as_failure_or_success(make_engine: MakeEngine) -> None:
    engine = make_engine(max_failed=2)
    engine.start_scheduler()
    engine.submit(1, fail)
    engine.log.await_count(("complete", 1))
    engine.submit(2)
    engine.submit(3, fail)
    engine.log.await_count(("complete", 3))
    assert len(engine.gave_up) == 1


def test_batch_failed_error_is_reported_unchanged(engine: Engine) -> None:
    error = BatchFailedError("output operation 0 of batch 1 ms failed: 3 tries")

    def raise_it() -> None:
        raise error

    engine.start_scheduler()
    engine.submit(1, raise_it)
    engine.log.await_count(("complete", 1))
    assert engine.errors == [error]


def test_batch_that_fails_after_abandon_stays_pending(engine: Engine) -> None:
    engine.start_scheduler()
    engine.submit(1, do_nothing)
    engine.log.await_count(("complete", 1))
    engine.scheduler.abandon()
    engine.submit(2, fail)
    engine.submit(3, do_nothing)
    engine.log.await_count(("complete", 3))
    # A recovered run generates it again.
    assert engine.scheduler.pending_batches == [2]
    assert ("complete", 2) not in engine.log.entries


def test_batch_whose_failure_causes_abandon_is_complete(make_engine: MakeEngine) -> None:
    engine = make_engine(max_failed=1)
    # The fault is injected: the engine abandons the scheduler while it reports the failure.
    engine.scheduler._on_give_up = lambda _error: engine.scheduler.abandon()
    engine.start_scheduler()
    engine.submit(1, fail)
    engine.log.await_count(("complete", 1))
    assert engine.scheduler.pending_batches == []


def test_batch_completes_even_if_posting_its_event_fails(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def post(event: object) -> None:
        if isinstance(event, BatchCompleted):
            raise RuntimeError("the bus is broken")

    monkeypatch.setattr(engine.scheduler, "_post", post)
    engine.start_scheduler()
    engine.submit(1000, do_nothing)
    engine.log.await_count(("complete", 1000))
    assert engine.scheduler.pending_batches == []


def test_batch_completes_even_if_a_stream_cannot_count_its_records(engine: Engine) -> None:
    def count() -> int:
        raise OSError("the file is gone")

    tracker = InputInfoTracker()
    tracker.report(1000, StreamInputInfo(0, 7), count)
    tracker.report(1000, StreamInputInfo(1, 0), lambda: 5)
    engine.start_scheduler()
    job = Job(0, CallSite("pprint", "short", "long"), do_nothing)
    engine.scheduler.submit(JobSet(1000, [job], tracker.info(1000), 0, lambda: tracker.final_info(1000)))
    engine.log.await_count(("complete", 1000))
    (completed,) = engine.log.of(BatchCompleted)
    assert {n: info.numRecords for n, info in completed.batchInfo.streamIdToInputInfo.items()} == {0: 7, 1: 5}


def test_graceful_stop_does_not_wait_for_batches_without_jobs(engine: Engine, clock: ManualClock, gate: Gate) -> None:
    # A window that slides by four batches.
    engine.graph.make = lambda time_ms: [do_nothing] if time_ms % 400 == 0 else []
    generator = engine.start()
    clock.await_waiters()
    clock.advance(1000)
    engine.log.await_count(("clear metadata", 1000, True))
    assert engine.completed == [400, 800]

    def advance() -> None:
        # Holds the race open until the stop is requested.
        wait_for(lambda: generator._timer._stopped, "the timer stops", poll_s=0.001)
        clock.advance(10_000)

    mover = threading.Thread(target=advance)
    mover.start()
    before = time.monotonic()
    assert generator.stop(before + 30)
    assert time.monotonic() - before < 20
    mover.join()
    assert engine.of("generate")[-2:] == [(1100,), (1200,)]
    assert engine.completed == [400, 800, 1200]
