"""Whatever the program raises, and however: the batch has an end and the next one runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.listen.events import BatchCompleted
from penstock.runtime.clock import ManualClock

if TYPE_CHECKING:
    from tests.schedule.conftest import Engine


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def nothing() -> None:
    """A job that has nothing to do."""


ERRORS = [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), Unprintable()]
IDS = [type(error).__name__ for error in ERRORS]


def raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize("error", ERRORS, ids=IDS)
def test_a_job_that_raises_anything_has_failed(engine: Engine, error: BaseException) -> None:
    engine.start_scheduler()
    engine.submit(1000, raising(error))
    engine.submit(2000, nothing)
    engine.log.await_count(BatchCompleted, 2, timeout_s=2)
    first = engine.log.of(BatchCompleted)[0].batchInfo
    assert first.batchTime == 1000
    assert first.outputOperationInfos[0].failureReason
    assert len(engine.errors) == 1
    assert engine.scheduler.pending_batches == []


@pytest.mark.parametrize("error", ERRORS, ids=IDS)
def test_a_batch_whose_making_raises_anything_is_told_and_the_next_one_is_made(
    engine: Engine, clock: ManualClock, error: BaseException
) -> None:
    # ``transform`` runs the program's functions while the jobs are made.
    def make(time_ms: int) -> list[Callable[[], None]]:
        if time_ms == 100:
            raise error
        return [nothing]

    engine.graph.make = make
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchCompleted, 2, timeout_s=2)
    assert engine.completed == [100, 200]
    assert len(engine.errors) == 1
    assert "batch 100 ms" in str(engine.errors[0])
