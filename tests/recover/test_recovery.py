"""``Recovery``: what a run that goes on has of one that died, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve
from pyspark import SparkConf
from tests.recover.test_checkpoint_store import FIRST
from tests.recover.test_checkpointer import Writing
from tests.recover.test_reattachment import Program
from tests.recover.test_resume import GoingOn, going_on  # noqa: F401

from penstock import StoredBlock
from penstock.clock import ManualClock
from penstock.conf import Settings
from penstock.errors import CheckpointError, ConfigurationError
from penstock.listen.events import BatchCompleted
from penstock.recover import recovery as recovery_module
from penstock.recover import saved_program
from penstock.recover.checkpoint import Checkpoint
from penstock.recover.checkpoint_store import CheckpointStore
from penstock.recover.checkpointer import Checkpointer
from penstock.recover.completed_outputs import CompletedOutputs
from penstock.recover.directory import Directory
from penstock.recover.recovery import Recovery
from penstock.spark.checkpoint import RunFolder
from penstock.spark.saved_conf import hash_seed
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


# -- before the start --


class Directories:
    """A checkpoint directory, and what is done to it in place of Spark."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.deleted = path, list[str]()
        monkeypatch.setattr(recovery_module, "delete_empty_folders", lambda _sc, _folder: None)
        monkeypatch.setattr(recovery_module, "delete_file", lambda _sc, name: self.deleted.append(Path(name).name))

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(Directory.of(str(self.path)))

    @property
    def newest(self) -> Checkpoint:
        found = self.store.newest()
        assert found is not None
        return found

    def next_run(self, name: str = "store", *, rebuilds: bool = True, program: Program | None = None) -> Recovery:
        """Of a program without ``getOrCreate``."""
        conf = {
            "spark.penstock.checkpoint.rebuild": str(rebuilds).lower(),
            "spark.penstock.checkpoint.testSources": "true",
        }
        spark = SimpleNamespace(appName=name, getConf=lambda: SparkConf(loadDefaults=False))
        context = SimpleNamespace(
            graph=(program or Program()).context.graph,
            settings=Settings(conf),
            clock=ManualClock(20_000),
            sparkContext=spark,
        )
        return Recovery(cast(Any, context), str(self.path), RunFolder("now", f"file:{self.path}", str(self.path)))

    def begin(self, recovery: Recovery) -> Checkpointer:
        """As the engine does at its start."""
        recovery.prepare()
        return recovery.checkpointer(dict, {}, _nothing, _nothing, keeps_blocks=True, outputs=None)


def _nothing(*_arguments: object) -> None:
    return None


@pytest.fixture
def directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Directories:
    """That of a run which died."""
    made = Directories(tmp_path, monkeypatch)
    made.store.write(evolve(FIRST, last_time_ms=10_000, pending={9000: 1, 10_000: 2}, hash_seed=hash_seed()))
    return made


def test_the_first_checkpoint_of_a_run_that_goes_on_knows_what_is_to_be_done(directories: Directories) -> None:
    for runs in (1, 2):
        # And it dies before it has written another.
        directories.begin(directories.next_run()).stop(10)
        first = directories.newest
        assert (first.number, first.last_time_ms) == (1 + runs, 10_000)
        assert first.pending == {9000: 1 + runs, 10_000: 2 + runs}
        assert first.begun == 1 + runs


def test_the_checkpoint_that_a_run_goes_on_from_is_kept_beside_its_first(directories: Directories) -> None:
    directories.begin(directories.next_run()).stop(10)
    first = max(directories.path.glob("checkpoint-*"))
    first.write_bytes(first.read_bytes()[:-1])
    assert directories.newest.number == 1


@pytest.mark.parametrize("rebuilds", [True, False], ids=["goes on", "afresh"])
def test_a_directory_of_another_application_is_refused_and_left_as_it_is(
    rebuilds: bool, directories: Directories
) -> None:
    before = {path.name: path.read_bytes() for path in directories.path.iterdir()}
    with pytest.raises(ConfigurationError, match="belongs to the application 'store', and this one is 'another'"):
        directories.next_run("another", rebuilds=rebuilds).prepare()
    assert {path.name: path.read_bytes() for path in directories.path.iterdir()} == before
    assert directories.deleted == []


def test_states_of_another_hash_seed_are_refused(directories: Directories, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    program.state("sums")
    directories.store.write(program.saved(hash_seed="7"))
    monkeypatch.setenv("PYTHONHASHSEED", "12")
    with pytest.raises(CheckpointError, match="Start with PYTHONHASHSEED=7"):
        directories.next_run(program=program).prepare()


def test_a_fresh_start_deletes_what_was_received_before_once_it_is_known_of(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_program, "save", lambda _context: b"functions")
    recovery = directories.next_run(rebuilds=False)
    recovery.prepare()
    assert directories.deleted == []
    directories.begin(recovery).stop(10)
    assert directories.deleted == ["receivedData", "receivedBlockMetadata"]
    assert (directories.newest.zero_time_ms, directories.newest.pending) == (-1, {})
