"""``Recovery``: what a run that goes on has of one that died, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve
from tests.recover.test_checkpoint_store import FIRST
from tests.recover.test_checkpointer import Writing
from tests.recover.test_reattachment import Program
from tests.recover.test_resume import GoingOn, going_on  # noqa: F401

from penstock import StoredBlock
from penstock.clock import ManualClock
from penstock.conf import Settings
from penstock.listen.events import BatchCompleted
from penstock.recover.completed_outputs import CompletedOutputs
from penstock.recover.directory import Directory
from penstock.recover.recovery import Recovery
from penstock.spark.checkpoint import RunFolder
from penstock.track.received_block_tracker import ReceivedBlockTracker

CONF = {
    "spark.penstock.outputs.skipCompleted": "true",
    "spark.streaming.receiver.writeAheadLog.enable": "true",
}


def recovery_of(program: Program, directory: Path) -> Recovery:
    """Of a program in its run."""
    context = SimpleNamespace(graph=program.context.graph, settings=Settings(CONF), clock=ManualClock(0))
    made = Recovery(cast(Any, context), str(directory), RunFolder("now", f"file:{directory}", str(directory)))
    made._first = FIRST
    return made


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Callable[..., CompletedOutputs]]:
    """Makes what is known of the outputs of the next run: so many, one of them with a name at a place."""
    made: list[CompletedOutputs] = []

    def make(count: int, named: int) -> CompletedOutputs:
        if made:
            made[-1].close()
        program = Program()
        for number in range(count):
            stream = program.source.map(str)
            if number == named:
                stream.setName("named")
            stream.foreachRDD(print)
        found = recovery_of(program, tmp_path).completed_outputs()
        assert found is not None
        found.start()
        made.append(found)
        return found

    yield make
    made[-1].close()


def test_outputs_are_known_again_as_long_as_none_comes_or_goes(outputs: Callable[..., CompletedOutputs]) -> None:
    first = outputs(2, named=1)
    first.note(1000, 0)
    first.note(1000, 1)
    second = outputs(2, named=1)
    assert [second.has(1000, number) for number in range(2)] == [True, True]
    # With one more nobody can tell which is which: all are repeated.
    third = outputs(3, named=2)
    assert [third.has(1000, number) for number in range(3)] == [False] * 3
    fourth = outputs(2, named=1)
    assert [fourth.has(1000, number) for number in range(2)] == [True, True]


def test_the_records_of_the_first_batch_are_in_it_though_the_run_died_before_its_checkpoint(
    tmp_path: Path,
    going_on: Callable[..., GoingOn],  # noqa: F811
) -> None:
    blocks = [StoredBlock(f"input-0-1-{number}", 0, 10, 100, f"/{number}") for number in range(2)]
    program = Program()
    recovery = recovery_of(program, tmp_path)
    before = ReceivedBlockTracker([0], recovery.journal())
    before.start()
    writing = Writing(evolve(FIRST, zero_time_ms=-1, last_time_ms=-1), {}, Directory.of(str(tmp_path)))
    writing.checkpointer.start()
    writing.checkpointer.begin(500)
    before.add_blocks(blocks)
    before.allocate_blocks_to_batch(600)
    # It dies here: no other checkpoint is written.
    before.close()
    writing.checkpointer.stop(10)

    found = Recovery.newest(str(tmp_path))
    assert found is not None
    assert (found.run, found.zero_time_ms, found.last_time_ms) == (FIRST.run, 500, 500)
    tracker = ReceivedBlockTracker([0], recovery.journal())
    tracker.start()
    run = going_on(now_ms=740, zero_time_ms=found.zero_time_ms, last_time_ms=found.last_time_ms)
    run.engine.intake.allocate_blocks_to_batch = tracker.allocate_blocks_to_batch  # type: ignore[method-assign]
    has: dict[int, list[StoredBlock]] = {}
    run.engine.graph.make = lambda time_ms: [lambda: has.update({time_ms: tracker.blocks_of_batch(time_ms, 0)})]
    run.start()
    run.log.await_count(BatchCompleted, 2)
    assert has == {600: blocks, 700: []}
    tracker.close()
