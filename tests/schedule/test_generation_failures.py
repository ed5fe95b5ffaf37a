"""Batches that cannot be generated at once: they are retried or fail, and no block is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.helpers import wait_for

from penstock import StoredBlock
from penstock.listen.events import BatchCompleted
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import Gate
    from tests.schedule.conftest import Engine


class Allocating:
    """Allocates blocks as the tracker does; the first attempts for some batches fail."""

    def __init__(self, engine: Engine, failures: dict[int, int], error: BaseException | None = None) -> None:
        self.blocks = ReceivedBlockTracker([0])
        self._failures = failures
        self._error = error or OSError("the log cannot be written")
        engine.batch_input.on_allocate = self._allocate

    def add(self, *numbers: int) -> None:
        self.blocks.add_blocks([StoredBlock(f"input-0-1-{n}", 0, 1, 1, "") for n in numbers])

    def of(self, batch_time_ms: int) -> list[str]:
        return [block.block_id for block in self.blocks.blocks_of_batch(batch_time_ms, 0)]

    def _allocate(self, time_ms: int) -> None:
        if self._failures.get(time_ms, 0) > 0:
            self._failures[time_ms] -= 1
            raise self._error
        self.blocks.allocate_blocks_to_batch(time_ms)


@pytest.mark.parametrize("error", [OSError("full"), SystemExit(1), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("failures", [1, 2])
def test_failed_allocation_is_retried(engine: Engine, clock: ManualClock, failures: int, error: BaseException) -> None:
    allocating = Allocating(engine, {100: failures}, error)
    allocating.add(1, 2)
    engine.start()
    clock.await_waiters()
    clock.advance(300)
    engine.log.await_count(BatchCompleted, 3)
    assert engine.completed == [100, 200, 300]
    assert engine.of("allocate") == [(100,)] * (failures + 1) + [(200,), (300,)]
    assert allocating.of(100) == ["input-0-1-1", "input-0-1-2"]
    assert engine.errors == []


def test_batch_fails_after_the_last_retry_and_its_blocks_are_in_the_next_one(
    engine: Engine, clock: ManualClock
) -> None:
    allocating = Allocating(engine, {100: 99})
    allocating.add(1, 2)
    engine.graph.num_outputs = 2
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchCompleted, 2)
    first, second = (event.batchInfo for event in engine.log.of(BatchCompleted))
    assert (first.batchTime, first.succeeded, second.batchTime, second.succeeded) == (100, False, 200, True)
    for operation in first.outputOperationInfos.values():
        assert "batch 1970-01-01T00:00:00.100Z could not be generated" in operation.failureReason
        assert "failed after 3 attempts: OSError: the log cannot be written" in operation.failureReason
    assert engine.of("allocate") == [(100,)] * 3 + [(200,)]
    assert engine.of("generate") == [(200,)]
    assert allocating.of(200) == ["input-0-1-1", "input-0-1-2"]


@pytest.mark.parametrize(("failures", "succeeded"), [(99, False), (2, True)])
def test_every_batch_has_the_full_number_of_retries(
    engine: Engine, clock: ManualClock, failures: int, succeeded: bool
) -> None:
    Allocating(engine, {100: failures, 200: 2})
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchCompleted, 2)
    assert [event.batchInfo.succeeded for event in engine.log.of(BatchCompleted)] == [succeeded, True]


def test_completed_batches_are_cleaned_up_while_an_allocation_is_retried(
    make_engine: Callable[..., Engine], clock: ManualClock, gate: Gate
) -> None:
    engine = make_engine(generation_retries=1_000_000)
    Allocating(engine, {200: 1_000_000})
    engine.graph.make = lambda _time_ms: [gate]
    engine.start()
    clock.await_waiters()
    clock.advance(300)
    assert gate.reached.wait(10)
    gate.open()
    engine.log.await_count(("clean up", 0, True))
    assert engine.completed == [100]
    # The next tick waits.
    assert (300,) not in engine.of("allocate")


def test_stop_ends_the_retries(make_engine: Callable[..., Engine], clock: ManualClock) -> None:
    engine = make_engine(generation_retries=1_000_000)
    Allocating(engine, {100: 1_000_000})
    generator = engine.start()
    clock.await_waiters()
    clock.advance(100)
    engine.log.await_count(("allocate", 100))
    generator.stop(None)
    # No thread is left that could retry.
    wait_for(
        lambda: not any("JobGenerator" in thread.name for thread in threading.enumerate()), "generator's threads end"
    )
    assert engine.of("generate") == []


def test_failed_clean_up_does_not_hold_up_batches(engine: Engine, clock: ManualClock) -> None:
    def fail(_time_ms: int, *, unpersist: bool) -> None:
        raise OSError("no such file")

    engine.graph.clear_metadata = fail  # type: ignore[assignment, method-assign]
    engine.start()
    for batch in (100, 200):
        clock.await_waiters()
        clock.advance(100)
        engine.log.await_count(BatchCompleted, batch // 100)
    engine.settle()
    assert [str(error) for error in engine.errors] == ["no such file"] * 2
