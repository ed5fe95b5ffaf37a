"""Whatever the program raises, its batch completes as failed and the next one runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.helpers import do_nothing

from penstock.listen.events import BatchCompleted
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.schedule.conftest import Engine


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


ERRORS = [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), Unprintable()]
IDS = [type(error).__name__ for error in ERRORS]


def raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize("error", ERRORS, ids=IDS)
def test_job_fails_with_any_exception(engine: Engine, error: BaseException) -> None:
    engine.start_scheduler()
    engine.submit(1000, raising(error))
    engine.submit(2000, do_nothing)
    engine.log.await_count(BatchCompleted, 2)
    first = engine.log.of(BatchCompleted)[0].batchInfo
    assert first.batchTime == 1000
    assert first.outputOperationInfos[0].failureReason
    assert len(engine.errors) == 1
    # A batch is pending until its event is posted.
    assert engine.scheduler.await_pending(time.monotonic() + 60)


@pytest.mark.parametrize("error", ERRORS, ids=IDS)
def test_generation_fails_with_any_exception_and_the_next_batch_runs(
    engine: Engine, clock: ManualClock, error: BaseException
) -> None:
    # Functions given to ``transform`` run while jobs are generated.
    def make(time_ms: int) -> list[Callable[[], None]]:
        if time_ms == 100:
            raise error
        return [do_nothing]

    engine.graph.make = make
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchCompleted, 2)
    assert engine.completed == [100, 200]
    assert len(engine.errors) == 1
    assert "batch 1970-01-01T00:00:00.100Z" in str(engine.errors[0])
