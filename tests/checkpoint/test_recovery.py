"""``Recovery``: what it checks, and with what a recovered run and a fresh one start."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve
from tests.checkpoint.recoveries import NOW_MS, blocks, left, program_of, recovery_of
from tests.checkpoint.samples import FIRST, FakeProgram, total
from tests.helpers import do_nothing
from tests.helpers.fake_graph import FakeRDD

from penstock.checkpoint import checkpoint_directory as directory_module
from penstock.checkpoint.checkpoint_format import Checkpoint, LateBatches
from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.checkpoint.checkpointer import Checkpointer
from penstock.checkpoint.completed_outputs import CompletedOutputs
from penstock.checkpoint.program import save_program
from penstock.checkpoint.restore import recovery as recovery_module
from penstock.checkpoint.restore.recovery import RecoveredRun, Recovery, block_log, find_newest
from penstock.errors import CheckpointError, ClaimLostError, ConfigurationError
from penstock.graph import stateful
from penstock.graph.input_dstreams import QueueInputDStream
from penstock.runtime.boot import boot_id
from penstock.spark.saved_conf import hash_seed
from penstock.storage.claim import CLAIMS, Claim, Owner
from penstock.storage.directory import Directory
from penstock.track.received_block_tracker import ReceivedBlockTracker


def rebuilt(
    path: Path, program: FakeProgram | None = None, application: str = "store"
) -> tuple[Recovery, RecoveredRun]:
    """Recover a program that its own code has rebuilt."""
    recovery = recovery_of(path, program, checkpoint_rebuild="true")
    return recovery, recovery.prepare()


def with_state() -> FakeProgram:
    program = FakeProgram()
    program.state("sums")
    return program


def newest(path: Path) -> Checkpoint:
    found = CheckpointStore(Directory.of(str(path))).newest()
    assert found is not None
    return found


def begin(recovery: Recovery, run: RecoveredRun) -> None:
    """Start and stop the run's checkpointer, as the engine does."""
    tracker = SimpleNamespace(rates=dict, blocks=SimpleNamespace(forget_streams=do_nothing))
    # The engine passes the same program to both, so the recovery publishes none.
    made = Checkpointer(recovery._program, run, cast(Any, tracker), {}, do_nothing, do_nothing)
    made.start()
    assert made.stop(10)


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is deleted, in place of Spark's deletion."""
    made: list[str] = []
    monkeypatch.setattr(directory_module, "delete_empty_folders", lambda _sc, _folder: None)
    monkeypatch.setattr(directory_module, "delete_file", lambda _sc, path: made.append(cast(str, path)))
    return made


def test_first_checkpoint_of_a_recovered_run_contains_pending_batches_with_one_more_attempt(tmp_path: Path) -> None:
    found = left(
        tmp_path, number=4, last_time_ms=3000, pending={2000: 1, 3000: 2}, later_attempts=2, folders=["before"]
    )
    recovery, run = rebuilt(tmp_path)
    assert run.first == evolve(
        found,
        number=5,
        written_ms=NOW_MS,
        versions=run.first.versions,
        hash_seed=hash_seed(),
        pending={2000: 2, 3000: 3},
        later_attempts=3,
        folders=["before", "now-state", "now"],
        boot=boot_id(),
        claim=1,
    )
    # It is still needed if the first checkpoint of this run gets damaged.
    assert recovery.directory.store.retained == [found]
    assert [run.first.attempts(time_ms) for time_ms in (3000, 4000, 6000)] == [3, 3, 1]


@pytest.mark.usefixtures("deleted")
def test_attempts_are_counted_over_runs_that_end_before_their_second_checkpoint(tmp_path: Path) -> None:
    left(tmp_path, last_time_ms=10_000, pending={7000: 1, 8000: 2}, late=[LateBatches(9000, 10_000, 1)])
    for runs in (1, 2):
        begin(*rebuilt(tmp_path))
        first = newest(tmp_path)
        assert (first.number, first.last_time_ms) == (1 + runs, 10_000)
        assert first.pending == {7000: 1 + runs, 8000: 2 + runs}
        assert first.late == [LateBatches(9000, 10_000, 1 + runs)]
        assert first.later_attempts == 1 + runs


@pytest.mark.usefixtures("deleted")
def test_checkpoint_recovered_from_is_retained_beside_the_first_one(tmp_path: Path) -> None:
    left(tmp_path)
    begin(*rebuilt(tmp_path))
    first = max(tmp_path.glob("checkpoint-*"))
    first.write_bytes(first.read_bytes()[:-1])
    assert newest(tmp_path).number == 1


@pytest.mark.parametrize(
    ("rebuilds", "finds"), [(True, False), (False, False), (False, True)], ids=["recovers", "starts fresh", "found"]
)
def test_directory_of_another_application_is_refused_and_not_touched(
    tmp_path: Path, rebuilds: bool, finds: bool, deleted: list[str]
) -> None:
    left(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    recovery = recovery_of(tmp_path, application="another", checkpoint_rebuild=str(rebuilds).lower())
    if finds:
        recovery.find()
    with pytest.raises(ConfigurationError, match="belongs to application 'store', but this application is 'another'"):
        recovery.prepare()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert deleted == []


def test_state_of_another_hash_seed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = with_state()
    left(tmp_path, hash_seed="12", states=program.saved().states)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    with pytest.raises(CheckpointError, match=r"PYTHONHASHSEED is '0', and was '12' .*Start with PYTHONHASHSEED=12"):
        rebuilt(tmp_path, program)


def test_another_batch_interval_is_refused(tmp_path: Path) -> None:
    left(tmp_path, batch_interval_ms=250)
    with pytest.raises(CheckpointError, match="the batch interval is 1000 ms, and that of the checkpoint is 250 ms"):
        rebuilt(tmp_path)


def test_fresh_start_deletes_received_blocks_after_its_first_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recovery_module, "save_program", lambda _program: b"functions")
    left(tmp_path / "used", last_time_ms=6000, pending={3000: 1}, late=[LateBatches(4000, 6000, 1)])
    recovery = recovery_of(tmp_path / "used")
    run = recovery.prepare()
    assert "starting fresh" in caplog.text
    assert "incomplete_batches=4" in caplog.text
    assert deleted == []
    begin(recovery, run)
    assert deleted == [f"file:{tmp_path}/used/{name}" for name in ("receivedData", "receivedBlockMetadata")]
    assert (newest(tmp_path / "used").zero_time_ms, newest(tmp_path / "used").pending) == (-1, {})


def test_run_in_an_empty_directory_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: list[str]
) -> None:
    monkeypatch.setattr(recovery_module, "save_program", lambda _program: b"functions")
    recovery = recovery_of(tmp_path / "empty")
    begin(recovery, recovery.prepare())
    assert deleted == []


def test_recovered_values_are_given_to_listeners_and_receivers(tmp_path: Path) -> None:
    saved = FakeProgram().saved()
    left(tmp_path, inputs=[evolve(each, rate=5.0) for each in saved.inputs], listeners={"a": {"k": 1}})
    recovery, run = rebuilt(tmp_path)
    assert run.first.rates == {0: 5.0}
    assert [recovery.saved_value(name) for name in ("a", "b")] == [{"k": 1}, None]


# -- what cannot be recovered --


def damage(path: Path) -> None:
    """Damage the only checkpoint."""
    left(path)
    (only,) = path.glob("checkpoint-*")
    only.write_bytes(only.read_bytes()[:-1])


def test_damaged_checkpoints_refuse_a_rebuilt_program_and_do_not_concern_a_fresh_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recovery_module, "save_program", lambda _program: b"functions")
    damage(tmp_path)
    with pytest.raises(CheckpointError, match="no checkpoint is sound"):
        rebuilt(tmp_path)
    assert recovery_of(tmp_path).prepare().first.number == 2
    assert "starting fresh" in caplog.text
    assert "checkpoints='none is sound'" in caplog.text


def test_checkpoints_that_are_damaged_after_one_was_found_are_refused(tmp_path: Path) -> None:
    left(tmp_path)
    recovery = recovery_of(tmp_path)
    recovery.find()
    damage(tmp_path)
    with pytest.raises(CheckpointError, match="no checkpoint is sound"):
        recovery.prepare()


def test_run_recovers_its_pending_and_late_batches(tmp_path: Path) -> None:
    left(tmp_path, zero_time_ms=0, last_time_ms=6000, pending={3000: 1}, late=[LateBatches(4000, 6000, 1)])
    _recovery, run = rebuilt(tmp_path)
    batches = run.batches
    assert batches is not None
    assert (batches.zero_time_ms, batches.last_time_ms, batches.pending) == (0, 6000, frozenset({3000}))
    assert (batches.state_ms, list(batches.late), list(batches.later_states)) == (None, [range(4000, 6001, 1000)], [])


def test_state_is_restored_again_after_a_failed_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateful, "checkpointed_state", lambda *_args: FakeRDD([[]]))
    program = with_state()
    files = {time_ms: f"before/{time_ms}" for time_ms in (10_000, 30_000, 50_000)}
    states = [evolve(state, files=files) for state in program.saved().states]
    left(
        tmp_path,
        last_time_ms=54_000,
        pending={12_000: 1, 32_000: 1},
        hash_seed=hash_seed(),
        states=states,
        inputs=program.saved().inputs,
    )
    _recovery, run = rebuilt(tmp_path, program)
    assert run.batches is not None
    assert run.batches.state_ms == 10_000
    restored: list[list[int]] = []
    monkeypatch.setattr(
        stateful.StatefulDStream, "restore", lambda _stream, times_ms: restored.append(sorted(times_ms))
    )
    assert [point.time_ms for point in run.batches.later_states] == [30_000, 50_000]
    for point in run.batches.later_states:
        point.restore()
    assert restored == [[10_000, 30_000], [10_000, 30_000, 50_000]]


def test_state_of_no_stream_is_refused_or_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    left(tmp_path, hash_seed=hash_seed(), states=with_state().saved().states)
    with pytest.raises(CheckpointError, match="the state of sums has no stream"):
        rebuilt(tmp_path)
    recovery_of(tmp_path, checkpoint_rebuild="true", checkpoint_onMismatch="drop-state").prepare()
    assert "parts of the checkpoint dropped" in caplog.text


def test_run_without_the_write_ahead_log_is_refused_while_blocks_in_it_are_needed(tmp_path: Path) -> None:
    program = FakeProgram()
    program.output(program.source)
    earlier = recovery_of(tmp_path)
    # The program is that of the engine, so the recovery publishes none.
    log = block_log(earlier._program, earlier.directory, FIRST.run, None)
    tracker = ReceivedBlockTracker([0], log)
    tracker.start()
    tracker.add_blocks(blocks(0))
    tracker.close()
    left(tmp_path, inputs=program.saved().inputs, logged_events=log.last_number)
    with pytest.raises(ConfigurationError, match=r"recovery needs 10 records .*Log\.enable is false"):
        rebuilt(tmp_path, program)


@pytest.mark.parametrize("skips", [True, False])
def test_completed_outputs_are_logged_only_if_they_are_to_be_skipped(tmp_path: Path, skips: bool) -> None:
    recovery = recovery_of(tmp_path, checkpoint_rebuild="true", outputs_skipCompleted=str(skips).lower())
    assert isinstance(recovery.prepare().completed_outputs, CompletedOutputs) is skips


def test_queues_are_not_recoverable(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def with_queue() -> FakeProgram:
        program = FakeProgram()
        QueueInputDStream(program.graph, deque(), one_at_a_time=True, default=None)
        return program

    rebuilt(tmp_path / "without")
    assert "queueStream not recoverable" not in caplog.text
    recovery, _run = rebuilt(tmp_path, with_queue())
    assert "queueStream not recoverable" in caplog.text
    # The same.
    saved = save_program(recovery._program)
    found = left(tmp_path, number=2, program=CheckpointStore(Directory.of(str(tmp_path))).write_program(saved))
    empty = FakeProgram()
    empty.graph.inputs.clear()
    with pytest.raises(CheckpointError, match="checkpoint 2 cannot be recovered, because its program reads from queue"):
        recovery_of(tmp_path, empty).load_program(found)


@pytest.mark.parametrize(("has_initial", "has_file"), [(False, False), (True, True), (True, False)])
def test_saved_program_is_loaded_if_its_states_can_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_initial: bool, has_file: bool
) -> None:
    monkeypatch.setattr(stateful, "checkpointed_state", lambda *_args: FakeRDD([[]]))
    before, now = FakeProgram(), FakeProgram()
    initial: Any = FakeRDD([[("a", 1)]]) if has_initial else None
    before.output(before.source.updateStateByKey(total, initialRDD=initial).setName("sums"))
    states = before.saved().states if has_file else []
    program = CheckpointStore(Directory.of(str(tmp_path))).write_program(save_program(program_of(before, {})))
    found = left(tmp_path, last_time_ms=10_000, program=program, states=states)
    now.graph.inputs.clear()
    recovery = recovery_of(tmp_path, now)
    if has_initial and not has_file:
        with pytest.raises(
            CheckpointError, match="its state was not checkpointed yet, and its initial state is an RDD"
        ):
            recovery.load_program(found)
        assert recovery.checkpoint is None
    else:
        recovery.load_program(found)
        assert recovery.checkpoint == found
        assert now.names == ["sums"]


def test_run_that_ended_before_its_first_batch_leaves_no_batches_to_catch_up(tmp_path: Path) -> None:
    found = left(tmp_path, zero_time_ms=-1, last_time_ms=-1)
    recovery, run = rebuilt(tmp_path)
    assert (recovery.checkpoint, run.batches) == (found, None)


def test_checkpoint_without_a_program_is_recovered_by_the_programs_own_code_only(tmp_path: Path) -> None:
    found = left(tmp_path)
    with pytest.raises(CheckpointError, match="it contains no saved program"):
        recovery_of(tmp_path).load_program(found)


def test_checkpoint_of_spark_is_refused_by_name(tmp_path: Path) -> None:
    for name in ("checkpoint-1700000000000", "checkpoint-1700000001000.bk"):
        (tmp_path / name).write_bytes(b"\x00lz4 of Java objects")
    named = rf"{tmp_path}/checkpoint-1700000001000\.bk is a checkpoint of pyspark\.streaming"
    with pytest.raises(CheckpointError, match=named):
        find_newest(str(tmp_path))
    # A program without getOrCreate would start afresh among the files.
    with pytest.raises(CheckpointError, match=named):
        recovery_of(tmp_path).prepare()
    assert not (tmp_path / CLAIMS).exists()
    # Beside checkpoints of Penstock they are of an earlier time.
    found = left(tmp_path)
    assert find_newest(str(tmp_path)) == found


def test_driver_that_is_refused_takes_the_directory_from_nobody(tmp_path: Path) -> None:
    left(tmp_path)
    claim = Claim.take(Directory.of(str(tmp_path)), Owner("host", 1, "store", "app", 0))
    with pytest.raises(ConfigurationError, match="belongs to application"):
        recovery_of(tmp_path, application="other").prepare()
    claim.check()
    left(tmp_path, number=5, batch_interval_ms=250)
    found = recovery_of(tmp_path)
    found.find()
    for recovery in (found, recovery_of(tmp_path, checkpoint_rebuild="true")):
        with pytest.raises(CheckpointError, match="the batch interval is 1000 ms"):
            recovery.prepare()
        claim.check()
    left(tmp_path, number=6)
    recovery_of(tmp_path).prepare()
    with pytest.raises(ClaimLostError, match="'store' \\(local-1\\), process"):
        claim.check()


def test_recovery_uses_what_the_earlier_owner_wrote_until_it_lost_the_directory(tmp_path: Path) -> None:
    left(tmp_path, number=4, last_time_ms=3000)
    recovery = recovery_of(tmp_path)
    recovery.find()
    later = left(tmp_path, number=5, last_time_ms=4000)
    run = recovery.prepare()
    assert recovery.checkpoint == later
    assert (run.first.number, run.first.last_time_ms, run.first.claim) == (6, 4000, 1)


def test_saved_program_that_another_driver_has_replaced_since_it_was_loaded_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(Directory.of(str(tmp_path)))
    found = left(tmp_path, number=4, program=store.write_program(b"one"))
    recovery = recovery_of(tmp_path)
    # What is loaded does not matter here.
    monkeypatch.setattr(recovery_module, "load_program", do_nothing)
    recovery.load_program(found)
    left(tmp_path, number=5, program=store.write_program(b"another"))
    with pytest.raises(CheckpointError, match="with another program since getOrCreate read it: start again"):
        recovery.prepare()


def test_program_of_its_own_code_replaces_a_saved_one(tmp_path: Path) -> None:
    store = CheckpointStore(Directory.of(str(tmp_path)))
    left(tmp_path, number=4, program=store.write_program(b"one"))
    recovery = recovery_of(tmp_path, checkpoint_rebuild="true")
    recovery.find()
    later = left(tmp_path, number=5, program=store.write_program(b"another"))
    recovery.prepare()
    assert recovery.checkpoint == later


@pytest.mark.usefixtures("deleted")
def test_late_checkpoint_of_an_old_owner_neither_replaces_nor_outranks_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(*rebuilt(tmp_path))
    first, _run = rebuilt(tmp_path)
    begin(*rebuilt(tmp_path))
    expected = newest(tmp_path)
    # Written without the check: the driver was suspended in between, on a storage without locks.
    late = CheckpointStore(Directory.of(str(tmp_path)))
    # Deletions are checked before.
    monkeypatch.setattr(late, "_delete_old", do_nothing)
    for number in (expected.number, expected.number + 10):
        late.write(evolve(expected, claim=first.directory.files.claim_number, number=number, last_time_ms=99_000))
    assert newest(tmp_path) == expected


@pytest.mark.usefixtures("deleted")
def test_checkpointer_of_a_driver_without_a_claim_writes_and_deletes_nothing(
    tmp_path: Path, deleted: list[str]
) -> None:
    recovery, run = rebuilt(tmp_path)
    rebuilt(tmp_path)
    with pytest.raises(ClaimLostError):
        begin(recovery, run)
    with pytest.raises(ClaimLostError):
        recovery.directory.delete_rdd("rdd")
    with pytest.raises(ClaimLostError):
        recovery.directory.delete_empty_folders()
    assert CheckpointStore(Directory.of(str(tmp_path))).names() == []
    assert deleted == []


class Unreadable(CheckpointStore):
    """A store on a disk that fails."""

    def newest(self) -> Checkpoint | None:
        raise OSError("bad sector")

    def write_program(self, _data: bytes) -> str:
        raise OSError("no space left")


def test_failing_disk_is_reported_with_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The fault is injected: no directory of the machine fails with this error.
    monkeypatch.setattr(directory_module, "CheckpointStore", Unreadable)
    recovery = recovery_of(tmp_path)
    with pytest.raises(ConfigurationError, match=f"checkpoint directory '{tmp_path}' cannot be used: bad sector"):
        recovery.prepare()
    with pytest.raises(CheckpointError, match=f"checkpoint directory '{tmp_path}' cannot be read: bad sector. Give"):
        recovery.find()
    monkeypatch.setattr(recovery_module, "save_program", lambda _program: b"functions")
    monkeypatch.setattr(Unreadable, "newest", lambda _store: None)
    with pytest.raises(ConfigurationError, match=f"checkpoint directory '{tmp_path}' cannot be used: no space left"):
        recovery.prepare()
