"""``JobGenerator``: the warnings about slow generation and missed ticks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import do_nothing

from penstock.listen.events import BatchCompleted
from penstock.runtime.log import throttle
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.schedule.conftest import Engine

MakeEngine = Callable[..., "Engine"]


def takes(clock: ManualClock, *durations_ms: int) -> Callable[..., list[Callable[[], None]]]:
    """A callback that advances the clock by the next of the durations, then by nothing."""
    left = iter(durations_ms)

    def take(*_arguments: Any, **_options: Any) -> list[Callable[[], None]]:
        clock.advance(next(left, 0))
        return [do_nothing]

    return take


def run(engine: Engine, clock: ManualClock, count: int) -> None:
    """Generate this many batches, each at its tick."""
    engine.start()
    for number in range(1, count + 1):
        clock.await_waiters()
        clock.advance(100 - clock.now_ms() % 100)
        engine.log.await_count(BatchCompleted, number)


def test_late_ticks_are_logged(engine: Engine, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    engine.start()
    clock.await_waiters()
    clock.advance(1000)
    engine.log.await_count(BatchCompleted, 10)
    (logged,) = [record.getMessage() for record in caplog.records if "ticks missed" in record.getMessage()]
    assert "count=9" in logged


def test_skipped_ticks_are_logged_and_generate_no_batch(
    make_engine: MakeEngine, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_engine(skip_late=True)
    engine.start()
    clock.await_waiters()
    clock.advance(1050)
    engine.log.await_count(BatchCompleted, 1)
    clock.await_waiters()
    clock.advance(50)
    engine.log.await_count(BatchCompleted, 2)
    assert engine.completed == [1000, 1100]
    # Everything received meanwhile is in the one batch.
    assert engine.of("allocate") == [(1000,), (1100,)]
    (logged,) = [record.getMessage() for record in caplog.records if "ticks missed" in record.getMessage()]
    assert "count=9" in logged


def test_slow_generation_is_logged_with_its_slowest_output_once_a_minute(
    engine: Engine, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    throttle.reset(clock)
    engine.graph.slowest = (120.0, "pprint at app.py:7")
    # Exactly an interval is in time; the last is more than a minute after the second.
    engine.graph.make = takes(clock, 100, 101, 150, 59_000, 200, 60_000)
    run(engine, clock, 2)
    for number in range(3, 20):
        clock.await_waiters()
        clock.advance(100)
        engine.log.await_count(BatchCompleted, number)
    logged = [record.getMessage() for record in caplog.records if "generation slower than" in record.getMessage()]
    assert len(logged) == 2
    assert "slowest='pprint at app.py:7'" in logged[0]
    assert "took_ms=101" in logged[0]
    assert "slowest_ms=120" in logged[0]
