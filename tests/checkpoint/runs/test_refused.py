"""Programs that cannot be checkpointed or recovered, and the errors that say so."""

from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from tests.helpers.runs import INTERVAL_MS, Output, Runs, numbered

from penstock import StreamingContext
from penstock.checkpoint.checkpoint_directory import CheckpointDirectory
from penstock.checkpoint.restore import recovery
from penstock.errors import CheckpointError, ConfigurationError, StreamingStateError

pytestmark = pytest.mark.spark


def numbers(number: int) -> list[Any]:
    return [("all", number)]


def total(new: list[int], old: int | None) -> int:
    return sum(new) + (old or 0)


def here(operation: str) -> str:
    return rf"{operation} at test_refused\.py:\d+"


def test_function_with_a_lock_is_refused_and_its_operator_named(runs: Runs, output: Output) -> None:
    lock = threading.Lock()

    def build(context: StreamingContext) -> None:
        output.collect(numbered(context, numbers).map(lambda pair: (lock, pair)).filter(bool))

    with pytest.raises(ConfigurationError, match=f"{here('map')}: DStreams with their functions are not serializable"):
        runs.new(build).start()


def test_function_with_an_rdd_is_refused_and_its_operator_named(runs: Runs, sc: SparkContext) -> None:
    held = sc.parallelize([1])

    def build(context: StreamingContext) -> None:
        numbered(context, numbers).foreachRDD(lambda rdd: rdd.union(held).count())

    with pytest.raises(ConfigurationError, match=f"{here('foreachRDD')}: .*not serializable"):
        runs.new(build).start()


def test_program_is_not_pickled_with_rebuild(runs: Runs, output: Output) -> None:
    runs.configure(checkpoint_rebuild="true")
    lock = threading.Lock()

    def build(context: StreamingContext) -> None:
        output.collect(numbered(context, numbers).transform(lambda rdd: rdd.filter(bool) if lock.locked() else rdd))

    run = runs.new(build).start()
    run.batches(1)
    assert output.batches == {1: [["all", 1]]}


def test_directory_that_cannot_be_created_is_refused(runs: Runs, output: Output, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises((ConfigurationError, CheckpointError), match=r"checkpoint directory .*file/below"):
        runs.new(lambda context: output.collect(numbered(context, numbers)), tmp_path / "file" / "below").start()


def states(context: StreamingContext, output: Output) -> None:
    output.collect(numbered(context, numbers).updateStateByKey(total, 1))


@pytest.fixture(scope="module")
def killed(sc: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Output]:
    """The checkpoint directory of a run that was killed after three batches, and the output of its program."""
    folder = tmp_path_factory.mktemp("killed")
    output = Output(folder / "output")
    runs = Runs(sc, folder, lambda: None)
    run = runs.new(lambda context: states(context, output)).start()
    run.batches(3)
    copy = runs.interrupt()
    run.stop()
    return copy, output


@pytest.fixture
def output(killed: tuple[Path, Output]) -> Output:
    killed[1].forget()
    return killed[1]


@pytest.fixture
def left(killed: tuple[Path, Output], runs: Runs, tmp_path: Path) -> Path:
    """A copy of that directory. Its run is the first one of the test."""
    runs.clock.advance(3 * INTERVAL_MS)
    runs.created = 1
    return Path(shutil.copytree(killed[0], tmp_path / "left"))


def test_checkpoint_of_another_application_or_hash_seed_is_refused(
    left: Path, runs: Runs, output: Output, monkeypatch: pytest.MonkeyPatch, sc: SparkContext
) -> None:
    def build(context: StreamingContext) -> None:
        states(context, output)

    with monkeypatch.context() as patch:
        patch.setattr(type(sc), "appName", "another", raising=False)
        patch.setattr(sc, "appName", "another")
        with pytest.raises(
            ConfigurationError, match="belongs to application 'penstock tests', but this application is 'an"
        ):
            runs.new(build, left).start()
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "12")
        with pytest.raises(CheckpointError, match=r"PYTHONHASHSEED is '12', and was '.*Start with PYTHONHASHSEED="):
            runs.new(build, left).start()
    # A recovered context takes no further streams.
    run = runs.new(build, left)
    with pytest.raises(StreamingStateError, match="was recovered from a checkpoint"):
        numbered(run.context, numbers)
    with pytest.raises(StreamingStateError, match="was recovered from a checkpoint"):
        run.context.queueStream([[1]])
    # The refused starts have changed nothing.
    run.start()
    run.batches(1)
    assert output.batches[4] == [["all", 10]]


def test_another_batch_interval_is_refused(left: Path, runs: Runs, output: Output, sc: SparkContext) -> None:
    runs.configure(checkpoint_rebuild="true")

    def create() -> StreamingContext:
        made = StreamingContext(sc, 2 * INTERVAL_MS / 1000)
        states(made, output)
        return made

    context = StreamingContext.getOrCreate(str(left), create)
    with pytest.raises(CheckpointError, match="interval is 2000 ms, and that of the checkpoint is 1000 ms"):
        context.start()


def test_program_that_cannot_be_loaded_is_rebuilt_by_setup_func(left: Path, runs: Runs, output: Output) -> None:
    (program,) = left.glob("program-*")
    program.write_bytes(program.read_bytes()[:-1])
    run = runs.new(lambda context: states(context, output), left).start()
    run.batches(1)
    assert runs.created == 2
    assert output.batches[4] == [["all", 10]]


def test_directory_is_resolved_by_spark(
    left: Path, runs: Runs, output: Output, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As if a path without a file system were on Hadoop's default one, unknown before there was a SparkContext.
    name = tmp_path / "elsewhere"
    monkeypatch.setattr(recovery, "qualified", lambda _sc, directory, _given_by: directory)
    create = CheckpointDirectory.create
    monkeypatch.setattr(
        CheckpointDirectory, "create", lambda sc, settings, _name, by: create(sc, settings, str(left), by)
    )
    run = runs.new(lambda context: states(context, output), name).start()
    run.batches(1)
    assert runs.created == 2
    assert output.batches[4] == [["all", 10]]
    assert not name.exists()


def test_fresh_start_logs_what_it_replaces(
    left: Path, runs: Runs, output: Output, caplog: pytest.LogCaptureFixture, sc: SparkContext
) -> None:
    for name in ("receivedData/0", "receivedBlockMetadata", "mine"):
        (left / name).mkdir(parents=True)
    context = StreamingContext(sc, INTERVAL_MS / 1000)
    states(context, output)
    context.checkpoint(str(left))
    context.start()
    context.stop(stopSparkContext=False)
    (logged,) = [record.getMessage() for record in caplog.records if "starting fresh" in record.getMessage()]
    assert str(left) in logged
    assert "last_batch=3000" in logged
    assert "states=['updateStateByKey-0']" in logged
    assert (left / "mine").is_dir()
    assert not list(left.glob("received*"))


def test_directory_without_a_sound_checkpoint_is_refused(left: Path, runs: Runs, output: Output) -> None:
    for path in left.glob("checkpoint-*"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=re.escape(f"checkpoint from directory {left}")):
        runs.new(lambda context: states(context, output), left)
