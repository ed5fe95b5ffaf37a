"""``Recovery``: what a run that goes on has of one that died, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve
from pyspark import SparkConf
from tests.checkpoint.test_checkpoint_store import FIRST
from tests.checkpoint.test_checkpointer import Writing
from tests.checkpoint.test_reattachment import Program
from tests.checkpoint.test_resume import GoingOn, going_on  # noqa: F401

from penstock import StoredBlock
from penstock.checkpoint import recovery as recovery_module
from penstock.checkpoint import saved_program
from penstock.checkpoint.checkpointer import Checkpointer
from penstock.checkpoint.completed_outputs import CompletedOutputs
from penstock.checkpoint.manifest import Checkpoint, SavedInput
from penstock.checkpoint.recovery import Recovery
from penstock.checkpoint.store import CheckpointStore
from penstock.conf import Settings
from penstock.errors import CheckpointError, ConfigurationError, WriteAheadLogError
from penstock.listen.events import BatchCompleted
from penstock.runtime.clock import ManualClock
from penstock.spark.checkpoint import RunFolder
from penstock.spark.saved_conf import hash_seed
from penstock.storage.directory import Directory
from penstock.track.received_block_tracker import ReceivedBlockTracker

CONF = {
    "spark.penstock.outputs.skipCompleted": "true",
    "spark.streaming.receiver.writeAheadLog.enable": "true",
}


def recovery_of(program: Program, directory: Path, found: Checkpoint | None = None, **conf: str) -> Recovery:
    """Of a program in its run, which goes on from a checkpoint or not."""
    settings = Settings({**CONF, **{f"spark.penstock.{name.replace('_', '.')}": value for name, value in conf.items()}})
    context = SimpleNamespace(
        graph=program.context.graph,
        settings=settings,
        clock=ManualClock(5000),
        sparkContext=SimpleNamespace(appName="store", getConf=lambda: SimpleNamespace(getAll=dict)),
    )
    made = Recovery(cast(Any, context), str(directory), RunFolder("now", f"file:{directory}", str(directory)))
    made.found, made._first = found, FIRST
    return made


def blocks(*numbers: int) -> list[StoredBlock]:
    return [StoredBlock(f"input-0-1-{number}", 0, 10, 100, f"/{number}") for number in numbers]


# -- what is checked before a run goes on, and what it writes first --


def left(directory: Path, **values: Any) -> Checkpoint:
    """The checkpoint that another run has left."""
    found = evolve(FIRST, **values)
    CheckpointStore(Directory.of(str(directory))).write(found)
    return found


def rebuilt(program: Program, directory: Path) -> Recovery:
    """Of a program that goes on with its own code."""
    program.state("sums")
    recovery = recovery_of(program, directory, checkpoint_rebuild="true")
    recovery.prepare()
    return recovery


def test_a_run_that_goes_on_writes_what_was_left_and_that_it_was_begun_once_more(tmp_path: Path) -> None:
    found = left(tmp_path, number=4, last_time_ms=3000, pending={2000: 1, 3000: 2}, begun=2, folders=["before"])
    recovery = rebuilt(Program(), tmp_path)
    assert recovery._first == evolve(
        found,
        number=5,
        written_ms=5000,
        versions=recovery._first.versions,
        pending={2000: 2, 3000: 3},
        begun=3,
        folders=["before", "now"],
    )
    # It is gone on from again when the first of this run is damaged.
    assert recovery._store.kept == [found]
    assert [recovery.attempts(time_ms) for time_ms in (3000, 4000, 6000)] == [3, 3, 1]


def test_a_directory_of_another_application_is_refused(tmp_path: Path) -> None:
    left(tmp_path, application="other")
    with pytest.raises(ConfigurationError, match="belongs to the application 'other', and this one is 'store'"):
        rebuilt(Program(), tmp_path)


def test_states_by_another_hash_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    program.state("sums")
    left(tmp_path, hash_seed="12", tables=program.saved().tables)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    with pytest.raises(CheckpointError, match=r"PYTHONHASHSEED is '0', and was '12' .*Start with PYTHONHASHSEED=12"):
        rebuilt(Program(), tmp_path)


def test_what_a_fresh_start_replaces_is_deleted_when_the_directory_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(tmp_path)
    deleted: list[str] = []
    monkeypatch.setattr(recovery_module, "delete_file", lambda _sc, path: deleted.append(path))
    monkeypatch.setattr(recovery_module, "delete_empty_folders", lambda _sc, _folder: None)
    monkeypatch.setattr(Recovery, "_write_program", lambda _self: None)
    for folder, gone in ((tmp_path, ["receivedData", "receivedBlockMetadata"]), (tmp_path / "empty", [])):
        recovery = recovery_of(Program(), folder)
        recovery.prepare()
        made = recovery.checkpointer(dict, {}, print, print, keeps_blocks=True, outputs=None)
        assert made.stop(10)
        assert deleted == [f"file:{folder}/{name}" for name in gone]
        deleted.clear()


# -- what was received --


@pytest.fixture
def journalled(tmp_path: Path) -> Checkpoint:
    """The checkpoint of a run with a block in each of two batches, and a third; the end of its journal is damaged."""
    recovery = recovery_of(Program(), tmp_path)
    tracker = ReceivedBlockTracker([0], recovery.journal())
    tracker.start()
    for number in range(2):
        tracker.add_blocks(blocks(number))
        if number:
            (journal,) = (tmp_path / "receivedBlockMetadata").iterdir()
            sound = journal.stat().st_size
        tracker.allocate_blocks_to_batch((number + 1) * 1000)
    tracker.add_blocks(blocks(2))
    tracker.close()
    data = bytearray(journal.read_bytes())
    data[sound + 20] ^= 1
    # Whatever follows is not read either: the file ends here.
    journal.write_bytes(data[: sound + 40])
    return evolve(FIRST, last_time_ms=2000, inputs=[SavedInput("a", "a", 0)], journaled=recovery._journaled())


def test_a_journal_that_says_less_than_the_checkpoint_is_refused(tmp_path: Path, journalled: Checkpoint) -> None:
    assert journalled.journaled == 5
    with pytest.raises(WriteAheadLogError, match="ends with event 3, and a checkpoint knows of 5"):
        ReceivedBlockTracker([0], recovery_of(Program(), tmp_path, journalled).journal())


@pytest.mark.parametrize(("pending", "again"), [({}, []), ({2000: 1}, [1])], ids=["complete", "not complete"])
def test_with_damage_skipped_no_block_of_a_complete_batch_is_in_another(
    tmp_path: Path, journalled: Checkpoint, pending: dict[int, int], again: list[int]
) -> None:
    found = evolve(journalled, pending=pending)
    tracker = ReceivedBlockTracker([0], recovery_of(Program(), tmp_path, found, checkpoint_onDamage="skip").journal())
    tracker.start()
    assert tracker.recovered.lost == 2
    for time_ms in (*pending, 3000):
        tracker.allocate_blocks_to_batch(time_ms)
    made = [block for time_ms in (*pending, 3000) for block in tracker.blocks_of_batch(time_ms, 0)]
    assert made == blocks(*again)
    # What windows and states are made again of is still there.
    assert tracker.blocks_of_batch(2000, 0) == blocks(1)
    tracker.close()


def test_a_batch_whose_blocks_could_not_be_allocated_is_no_damage(tmp_path: Path) -> None:
    recovery = recovery_of(Program(), tmp_path)
    tracker = ReceivedBlockTracker([0], recovery.journal())
    tracker.start()
    tracker.add_blocks(blocks(0))
    tracker.close()
    # The journal could not be written, and the checkpoint that says that there was a batch could.
    found = evolve(FIRST, last_time_ms=2000, inputs=[SavedInput("a", "a", 0)], journaled=recovery._journaled())
    again = ReceivedBlockTracker([0], recovery_of(Program(), tmp_path, found).journal())
    assert again.recovered.is_whole
    assert again.leftovers() == {0: 10}


def test_with_the_log_off_what_was_received_with_it_on_is_not_left_out_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recovery = recovery_of(Program(), tmp_path)
    tracker = ReceivedBlockTracker([0], recovery.journal())
    tracker.start()
    for number in range(2):
        tracker.add_blocks(blocks(number))
        tracker.allocate_blocks_to_batch((number + 1) * 1000)
    found = evolve(FIRST, last_time_ms=2000, inputs=[SavedInput("a", "a", 0)], journaled=recovery._journaled())
    monkeypatch.setitem(CONF, "spark.streaming.receiver.writeAheadLog.enable", "false")
    program = Program()
    program.output(program.source)
    without = recovery_of(program, tmp_path, found)
    # All of it is done.
    assert without.journal() is None
    assert without._journaled() == 0
    unfinished = evolve(found, pending={2000: 1})
    refusal = r"Log\.enable is off, and 10 records .*needed.*Go on with it on.*onDamage=skip"
    with pytest.raises(ConfigurationError, match=refusal):
        recovery_of(program, tmp_path, unfinished).journal()
    assert recovery_of(program, tmp_path, unfinished, checkpoint_onDamage="skip").journal() is None
    assert "records=10" in caplog.text
    # A window that begins before; and what waits for its batch.
    window = Program()
    window.output(window.source.window(2))
    with pytest.raises(ConfigurationError, match=r"20 records .*windows"):
        recovery_of(window, tmp_path, found).journal()
    tracker.add_blocks(blocks(2))
    tracker.close()
    with pytest.raises(ConfigurationError, match=refusal):
        recovery_of(program, tmp_path, found).journal()


Output = tuple[Callable[[Any], object], str | None]


def to_database(rdd: Any) -> None:
    pass


def to_queue(rdd: Any) -> None:
    pass


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Callable[..., CompletedOutputs]]:
    """Makes what is known of the outputs of the next run: of their functions, and the names of their streams."""
    made: list[CompletedOutputs] = []

    def make(*wanted: Output) -> CompletedOutputs:
        if made:
            made[-1].close()
        program = Program()
        for function, name in wanted:
            stream = program.source.map(str)
            if name is not None:
                stream.setName(name)
            stream.foreachRDD(function)
        found = recovery_of(program, tmp_path).completed_outputs()
        assert found is not None
        found.start()
        made.append(found)
        return found

    yield make
    made[-1].close()


def test_outputs_are_known_again_as_long_as_none_comes_or_goes(outputs: Callable[..., CompletedOutputs]) -> None:
    first = outputs((print, None), (print, "named"))
    first.note(1000, 0)
    first.note(1000, 1)
    second = outputs((print, None), (print, "named"))
    assert [second.has(1000, number) for number in range(2)] == [True, True]
    # With one more nobody can tell which is which: all are repeated but for what has a name.
    third = outputs((print, None), (print, None), (print, "named"))
    assert [third.has(1000, number) for number in range(3)] == [False, False, True]
    fourth = outputs((print, None), (print, "named"))
    assert [fourth.has(1000, number) for number in range(2)] == [True, True]
    # Two have it now.
    fifth = outputs((to_queue, "named"), (print, "named"))
    assert [fifth.has(1000, number) for number in range(2)] == [False, False]


def test_an_output_is_not_mistaken_for_another_that_has_its_place(outputs: Callable[..., CompletedOutputs]) -> None:
    first = outputs((to_database, None), (to_queue, None), (print, "a"), (print, "b"))
    first.note(1000, 0)
    first.note(1000, 2)
    second = outputs((to_queue, None), (to_database, None), (print, "b"), (print, "a"))
    # The last is known by its name.
    assert [second.has(1000, number) for number in range(4)] == [False, False, False, True]


def test_the_records_of_the_first_batch_are_in_it_though_the_run_died_before_its_checkpoint(
    tmp_path: Path,
    going_on: Callable[..., GoingOn],  # noqa: F811
) -> None:
    two = blocks(0, 1)
    program = Program()
    recovery = recovery_of(program, tmp_path)
    before = ReceivedBlockTracker([0], recovery.journal())
    before.start()
    writing = Writing(evolve(FIRST, zero_time_ms=-1, last_time_ms=-1), {}, Directory.of(str(tmp_path)))
    writing.checkpointer.start()
    writing.checkpointer.begin(500)
    before.add_blocks(two)
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
    assert has == {600: two, 700: []}
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
