"""Blocks of a batch that is not complete are not deleted, whichever later batches are complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.helpers import do_nothing

from penstock.listen.events import BatchCompleted
from penstock_testing import ManualClock

if TYPE_CHECKING:
    from tests.helpers import Gate
    from tests.schedule.conftest import Engine


def test_batches_without_jobs_do_not_delete_blocks_of_an_older_pending_batch(
    engine: Engine, clock: ManualClock, gate: Gate
) -> None:
    # As when ``transform`` gives None for most batches, or a window slides by several.
    engine.graph.make = lambda time_ms: [gate] if time_ms == 100 else []
    engine.start()
    clock.await_waiters()
    clock.advance(600)
    assert gate.reached.wait(10)
    engine.log.await_count(("generate", 600))
    engine.settle()
    assert engine.scheduler.pending_batches == [100]
    assert set(engine.of("clear metadata")) == {(0, True)}
    # The blocks of batch 100 are those that are not strictly older than 100.
    assert all(before_ms <= 100 for before_ms, delete in engine.of("clean up") if delete)
    gate.open()
    engine.log.await_count(("clear metadata", 600, True))
    engine.log.await_count(("clean up", 500, True))


def test_batches_that_overtake_do_not_delete_blocks_of_an_older_pending_batch(
    make_engine: Callable[..., Engine], clock: ManualClock, gate: Gate
) -> None:
    engine = make_engine(concurrent_jobs=2)
    engine.graph.make = lambda time_ms: [gate if time_ms == 100 else do_nothing]
    engine.start()
    clock.await_waiters()
    clock.advance(600)
    assert gate.reached.wait(10)
    engine.log.await_count(BatchCompleted, 5)
    engine.settle()
    assert engine.scheduler.pending_batches == [100]
    assert set(engine.of("clear metadata")) == {(0, True)}
    assert all(before_ms <= 100 for before_ms, delete in engine.of("clean up") if delete)
    gate.open()
    engine.log.await_count(("clear metadata", 600, True))
    engine.log.await_count(("clean up", 500, True))
