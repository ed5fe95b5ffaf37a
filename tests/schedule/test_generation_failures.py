"""Batches that cannot be made at once: they are tried again, or fail where everybody sees it; no blocks are lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock import StoredBlock
from penstock.graph.graph_runtime import GraphRuntime
from penstock.listen.events import BatchCompleted, BatchSubmitted
from penstock.runtime.clock import ManualClock
from penstock.track.received_block_tracker import ReceivedBlockTracker

if TYPE_CHECKING:
    from tests.schedule.conftest import Engine, Gate


def nothing() -> None:
    """A job that has nothing to do."""


class Allocating:
    """Gives blocks to batches as the tracker does, after so many failures for a batch."""

    def __init__(self, engine: Engine, failures: dict[int, int], error: BaseException | None = None) -> None:
        self.blocks = ReceivedBlockTracker([0])
        self._failures, self._error = failures, error or OSError("the log cannot be written")
        engine.intake.on_allocate = self._allocate

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
def test_an_allocation_that_fails_is_tried_again(
    engine: Engine, clock: ManualClock, failures: int, error: BaseException
) -> None:
    allocating = Allocating(engine, {100: failures}, error)
    allocating.add(1, 2)
    engine.graph.connect(GraphRuntime(generation_retries=2))
    engine.start()
    clock.await_waiters()
    clock.advance(300)
    engine.log.await_count(BatchCompleted, 3)
    assert engine.completed == [100, 200, 300]
    assert engine.of("allocate") == [(100,)] * (failures + 1) + [(200,), (300,)]
    assert allocating.of(100) == ["input-0-1-1", "input-0-1-2"]
    assert engine.errors == []


def test_an_allocation_that_keeps_failing_is_a_failed_batch_and_its_blocks_are_in_the_next(
    engine: Engine, clock: ManualClock
) -> None:
    allocating = Allocating(engine, {100: 99})
    allocating.add(1, 2)
    engine.graph.connect(GraphRuntime(generation_retries=2))
    engine.graph.num_outputs = 2
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchCompleted, 2)
    first, second = (event.batchInfo for event in engine.log.of(BatchCompleted))
    assert (first.batchTime, first.succeeded, second.batchTime, second.succeeded) == (100, False, 200, True)
    for operation in first.outputOperationInfos.values():
        assert "batch 100 ms could not be generated" in operation.failureReason
        assert "tries: 3: OSError: the log cannot be written" in operation.failureReason
    assert engine.of("allocate") == [(100,)] * 3 + [(200,)]
    assert engine.of("generate") == [(200,)]
    assert allocating.of(200) == ["input-0-1-1", "input-0-1-2"]


def test_every_batch_has_all_its_tries(engine: Engine, clock: ManualClock) -> None:
    Allocating(engine, {100: 99, 200: 2})
    engine.graph.connect(GraphRuntime(generation_retries=2))
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchCompleted, 2)
    assert [event.batchInfo.succeeded for event in engine.log.of(BatchCompleted)] == [False, True]


def test_while_an_allocation_is_tried_again_the_loop_goes_on_with_completions(
    engine: Engine, clock: ManualClock, gate: Gate
) -> None:
    Allocating(engine, {200: 1_000_000})
    engine.graph.connect(GraphRuntime(generation_retries=1_000_000))
    engine.graph.make = lambda _time_ms: [gate]
    engine.start()
    clock.await_waiters()
    clock.advance(300)
    assert gate.reached.wait(10)
    gate.open()
    engine.log.await_entry(("clean up", 0, True))
    assert engine.completed == [100]
    # The tick behind it waits for its turn.
    assert (300,) not in engine.of("allocate")


def test_a_stop_ends_the_tries(engine: Engine, clock: ManualClock) -> None:
    Allocating(engine, {100: 1_000_000})
    engine.graph.connect(GraphRuntime(generation_retries=1_000_000))
    generator = engine.start()
    clock.await_waiters()
    clock.advance(100)
    engine.log.await_entry(("allocate", 100))
    generator.stop(None)
    tries = len(engine.of("allocate"))
    time.sleep(0.02)
    assert len(engine.of("allocate")) == tries


def test_what_raises_outside_of_any_output_is_a_failed_batch(engine: Engine, clock: ManualClock) -> None:
    def make(time_ms: int) -> list[Callable[[], None]]:
        if time_ms == 100:
            raise RecursionError("too deep")
        return [nothing]

    engine.graph.make = make
    engine.start()
    clock.await_waiters()
    clock.advance(200)
    engine.log.await_count(BatchCompleted, 2)
    failed, fine = (event.batchInfo for event in engine.log.of(BatchCompleted))
    assert (failed.succeeded, fine.succeeded) == (False, True)
    assert "batch 100 ms could not be generated" in failed.outputOperationInfos[0].failureReason
    assert len(engine.log.of(BatchSubmitted)) == 2
    assert engine.scheduler.pending_batches == []


def test_a_clean_up_that_fails_holds_up_no_batch(engine: Engine, clock: ManualClock) -> None:
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
