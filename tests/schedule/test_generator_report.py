"""What the making of batches took, and what is told when it takes too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.listen.events import BatchCompleted
from penstock.runtime.clock import ManualClock
from penstock.schedule.generator_report import GeneratorReport, Phase

if TYPE_CHECKING:
    from tests.schedule.conftest import Engine

MakeEngine = Callable[..., "Engine"]


def nothing() -> None:
    """A job that has nothing to do."""


def takes(clock: ManualClock, *durations_ms: int) -> Callable[..., list[Callable[[], None]]]:
    """Something that moves the clock by the next of the durations, or not at all."""
    left = iter(durations_ms)

    def take(*_arguments: Any, **_options: Any) -> list[Callable[[], None]]:
        clock.advance(next(left, 0))
        return [nothing]

    return take


def run(engine: Engine, clock: ManualClock, count: int) -> GeneratorReport:
    """Make so many batches, each when the clock says so; what the report says then."""
    generator = engine.start()
    for number in range(1, count + 1):
        clock.await_waiters()
        clock.advance(100 - clock.now_ms() % 100)
        engine.log.await_count(BatchCompleted, number)
        engine.settle()
    return generator.report()


def test_each_phase_is_timed(engine: Engine, clock: ManualClock) -> None:
    engine.intake.on_allocate = takes(clock, 1, 3)
    engine.graph.make = takes(clock, 10, 20)
    engine.graph.clear_metadata = takes(clock, 5)  # type: ignore[assignment, method-assign]
    report = run(engine, clock, 2)
    assert report.allocation == Phase(2, 4, 3)
    assert report.generation == Phase(2, 30, 20)
    assert report.clean_up == Phase(2, 5, 5)
    assert (report.submission.count, report.submission.total_ms) == (2, 0)
    assert (report.late_ticks, report.skipped_ticks, report.dropped_batches, report.failed_batches) == (0, 0, 0, 0)


def test_a_phase_that_fails_is_timed_too(engine: Engine, clock: ManualClock) -> None:
    def make(_time_ms: int) -> list[Callable[[], None]]:
        clock.advance(7)
        raise ValueError("no")

    engine.graph.make = make
    report = run(engine, clock, 1)
    assert report.generation == Phase(1, 7, 7)
    assert report.failed_batches == 1


def test_before_the_first_batch_all_is_zero(engine: Engine) -> None:
    assert engine.start().report() == GeneratorReport()


def test_late_ticks_are_in_the_report_and_told_of(
    engine: Engine, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    generator = engine.start()
    clock.await_waiters()
    clock.advance(1000)
    engine.log.await_count(BatchCompleted, 10)
    assert (generator.report().late_ticks, generator.report().skipped_ticks) == (9, 0)
    (told,) = [record.getMessage() for record in caplog.records if "ticks missed" in record.getMessage()]
    assert "count=9" in told


def test_skipped_ticks_make_no_batch_and_are_in_the_report(make_engine: MakeEngine, clock: ManualClock) -> None:
    engine = make_engine(skip_late=True)
    generator = engine.start()
    clock.await_waiters()
    clock.advance(1050)
    engine.log.await_count(BatchCompleted, 1)
    clock.await_waiters()
    clock.advance(50)
    engine.log.await_count(BatchCompleted, 2)
    assert engine.completed == [1000, 1100]
    # All that was received in the meantime belongs to the batch that is made.
    assert engine.of("allocate") == [(1000,), (1100,)]
    assert (generator.report().late_ticks, generator.report().skipped_ticks) == (0, 9)


def test_slow_generation_is_told_of_with_the_slowest_output_once_a_minute(
    engine: Engine, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine.graph.slowest = (120.0, "pprint at app.py:7")
    # Exactly an interval is in time; the last is more than a minute after the second.
    engine.graph.make = takes(clock, 100, 101, 150, 59_000, 200, 60_000)
    run(engine, clock, 2)
    for number in range(3, 20):
        clock.await_waiters()
        clock.advance(100)
        engine.log.await_count(BatchCompleted, number)
    told = [record.getMessage() for record in caplog.records if "took longer than" in record.getMessage()]
    assert len(told) == 2
    assert "slowest='pprint at app.py:7'" in told[0]
    assert "took_ms=101" in told[0]
    assert "slowest_ms=120" in told[0]
