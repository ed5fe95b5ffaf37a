"""A power failure at any operation of a run: log, blocks, checkpoints and state recover what the durability promises.

With ``fsync`` nothing that was acknowledged is lost. With ``flush`` and ``none`` younger data may be, but a recovery
finds the newest synced checkpoint and everything that it names. No setting ever gives wrong data.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import define, field
from tests.checkpoint.recoveries import directory_of, program_of
from tests.checkpoint.samples import FakeProgram
from tests.helpers.examples import examples
from tests.helpers.fake_graph import FakeRDD
from tests.helpers.simulated_disk import SimulatedDisk, Survival

from penstock import Block, State, StateSpec, StoredBlock
from penstock.blocks import arrow_form
from penstock.blocks.received_block_handler import WriteAheadLogBlockHandler, stream_directory
from penstock.checkpoint import checkpoint_directory
from penstock.checkpoint.checkpoint_format import Checkpoint
from penstock.checkpoint.checkpointer import Checkpointer
from penstock.checkpoint.restore import recovery as recovery_module
from penstock.checkpoint.restore.recovery import RecoveredRun, Recovery
from penstock.errors import BlockDamagedError, BlockGoneError
from penstock.graph import stateful
from penstock.schedule.unfinished_batches import UnfinishedBatches
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock_state.state_store import StateStore, StateVersion, StoredState

INTERVAL_MS = 1000
#: Survivals to try at every cut, and seeds for those that choose at random.
CHOICES = [(survival, 0) for survival in Survival] + [(Survival.TORN, seed) for seed in range(1, examples(2))]
#: What the state was after each batch: the records of each key.
States = dict[int, dict[str, list[int]]]


def total(key: str, value: int, state: State[list[int]]) -> None:
    """The mapping function of the program; these tests update the state store themselves."""


def ignore(rdd: object) -> None:
    """The output of the program. The signature of a builtin takes milliseconds to read, for each of 1,500 lives."""


@define
class Expected:
    """What a run has done, by the number of operations before it was done."""

    states: States = field(factory=dict)
    # By block: its records, and the position at which it was acknowledged.
    records: dict[str, list[int]] = field(factory=dict)
    acknowledged: dict[str, int] = field(factory=dict)
    # By number of a synced checkpoint: the positions at which its write began and ended.
    synced: dict[int, tuple[int, int]] = field(factory=dict)


class Life:
    """One run of a program on a checkpoint directory, from its recovery on, without Spark and receivers."""

    def __init__(self, root: Path, durability: str) -> None:
        fake = FakeProgram()
        fake.source.mapWithState(StateSpec.function(total).numPartitions(1)).foreachRDD(ignore)
        fake.graph.state_home = f"{root}/now/state"
        fake.graph.batch_interval_ms = INTERVAL_MS
        conf = {
            "spark.penstock.writeAheadLog.durability": durability,
            "spark.streaming.receiver.writeAheadLog.enable": "true",
        }
        self.program = program_of(fake, conf)
        self.directory = directory_of(self.program, root)
        recovery = Recovery(self.program, self.directory)
        recovery.find()
        self.checkpoint: Checkpoint | None = recovery.checkpoint
        if self.checkpoint is not None:
            assert self.checkpoint.program is not None
            self.directory.store.read_program(self.checkpoint.program)
        self.run: RecoveredRun = recovery.prepare()
        assert recovery.checkpoint == self.checkpoint
        assert self.run.block_log is not None
        self.log = self.run.block_log
        self.blocks = ReceivedBlockTracker([0], self.log)
        self.handler = WriteAheadLogBlockHandler(stream_directory(str(root), 0), durability)
        (self.state,) = fake.states().values()
        self._root = root

    def restored(self) -> tuple[int, dict[str, list[int]]]:
        """The batch time of the newest restored state, and the state."""
        files = self.state.checkpointed()
        if not files:
            return -1, {}
        time_ms = max(files)
        home, version = self._handle(files[time_ms])
        return time_ms, dict(StateStore.of(home, 0).snapshot(version))

    def _handle(self, path: str) -> tuple[str, StateVersion]:
        data = Path(path.removeprefix("file:"), "part-00000").read_bytes()
        _home, version = pickle.loads(data)
        return self.state.home, version

    def readable(self, blocks: list[StoredBlock]) -> dict[str, list[int]]:
        """The records of blocks, without those that are lost."""
        found: dict[str, list[int]] = {}
        for block in blocks:
            try:
                reader = arrow_form.open_block_file(block.path, block.checksum)
                found[block.block_id] = list(
                    arrow_form.records(map(reader.get_batch, range(reader.num_record_batches)))
                )
            except (BlockGoneError, BlockDamagedError):
                continue
        return found

    def live(self, disk: SimulatedDisk, expected: Expected, batches: int) -> None:
        """Start, process batches, and end without a last checkpoint."""
        tracker = SimpleNamespace(rates=dict, blocks=self.blocks)
        checkpointer = Checkpointer(self.program, self.run, cast(Any, tracker), {}, lambda _event: None, self._release)
        self._checkpointer = checkpointer
        write, zero_ms = self.directory.store.write, 0

        def noted(checkpoint: Checkpoint) -> Checkpoint:
            syncs, began = self.directory.store.syncs_next, disk.mark()
            oldest = write(checkpoint)
            if syncs:
                expected.synced[checkpoint.number] = (began, disk.mark())
            return oldest

        self.directory.store.write = noted  # type: ignore[method-assign]
        checkpointer.start()
        self.blocks.start()
        self.handler.remove_unknown({f"{block.block_id}.arrow" for block in self.blocks.state.retained()})
        last_ms = self.checkpoint.last_time_ms if self.checkpoint is not None else zero_ms
        restored_ms, state = self.restored()
        version = self._handle(self.state.checkpointed()[restored_ms])[1] if restored_ms >= 0 else StateVersion(-1)
        self.program.graph.start(zero_ms)
        if self.checkpoint is None:
            checkpointer.begin(zero_ms)
        epoch = self.blocks.state.epochs.get(0, -1) + 1
        self.blocks.note_launches({0: epoch})
        # The batches after the restored state are computed again.
        for time_ms in range(max(restored_ms, zero_ms) + INTERVAL_MS, last_ms + INTERVAL_MS, INTERVAL_MS):
            version = self._compute(time_ms, version, state, expected)
        for number in range(batches):
            time_ms = last_ms + (number + 1) * INTERVAL_MS
            self._receive(f"input-0-{epoch}-{number}", disk, expected)
            self.blocks.allocate_blocks_to_batch(time_ms)
            if number == 2:
                # The log begins a new base; the next event waits for it.
                self.program.clock.advance(60_000)  # type: ignore[attr-defined]
                self.blocks.note_launches({0: epoch})
                self.blocks.note_launches({0: epoch})
            checkpointer.save(UnfinishedBatches(time_ms, pending=frozenset({time_ms})), time_ms - INTERVAL_MS)
            version = self._compute(time_ms, version, state, expected)
            self._save(checkpointer, time_ms, version)
        checkpointer.stop(30)
        self.blocks.close()

    def _receive(self, block_id: str, disk: SimulatedDisk, expected: Expected) -> None:
        records = [len(expected.records) * 10 + index for index in range(3)]
        stored = self.handler.store(Block(block_id, 0, 3, arrow_form.encode(records)))
        expected.records[block_id] = records
        self.blocks.add_blocks([stored])
        expected.acknowledged[block_id] = disk.mark()

    def _compute(
        self, time_ms: int, version: StateVersion, state: dict[str, list[int]], expected: Expected
    ) -> StateVersion:
        for block in self.blocks.blocks_of_batch(time_ms, 0):
            for record in expected.records[block.block_id]:
                key = f"key {record % 4}"
                state[key] = [*state.get(key, []), record]
        expected.states[time_ms] = {key: list(records) for key, records in state.items()}
        changes = [(key, StoredState(pickle.dumps(key), pickle.dumps(state[key]), time_ms)) for key in state]
        store = StateStore.of(self.state.home, 0)
        return store.retire(store.commit(version, time_ms, changes), self._checkpointer.recoverable_ms or 0)

    def _save(self, checkpointer: Checkpointer, time_ms: int, version: StateVersion) -> None:
        """Checkpoint the state every third batch as Spark does, whose files nobody syncs, and save a checkpoint."""
        files = self.state._files  # only a job of Spark adds one by a public way
        if time_ms // INTERVAL_MS % 3 == 0:
            folder = self._root / "now" / f"rdd-{time_ms}"
            folder.mkdir(parents=True)
            (folder / ".part").write_bytes(pickle.dumps((self.state.home, version)))
            (folder / ".part").replace(folder / "part-00000")
            files[time_ms] = str(folder)
            for old_ms in sorted(files)[:-2]:
                checkpointer.discard_file(files.pop(old_ms))
        checkpointer.save(UnfinishedBatches(time_ms), time_ms - INTERVAL_MS)

    def _release(self, before_ms: int, retained: Sequence[range]) -> None:
        self.handler.delete([block.block_id for block in self.blocks.clean_up_batches(before_ms, retained)])


@pytest.fixture(autouse=True)
def boot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace Spark and the program's pickled form, and let each life write its checkpoints at once."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # PySpark's hash of keys asks for it
    monkeypatch.setattr(stateful, "checkpointed_state", lambda *_args: FakeRDD([[]]))
    monkeypatch.setattr(
        checkpoint_directory, "delete_file", lambda _sc, path: _delete(Path(path.removeprefix("file:")))
    )
    monkeypatch.setattr(checkpoint_directory, "delete_empty_folders", lambda _sc, _folder: None)
    monkeypatch.setattr(recovery_module, "save_program", lambda _program: b"functions" * 50)
    monkeypatch.setattr(recovery_module, "boot_id", lambda: "first boot")
    save = Checkpointer.save

    def saved(checkpointer: Checkpointer, *arguments: Any) -> None:
        save(checkpointer, *arguments)
        # In place of the writer's thread, so that the operations of a run are always the same.
        taken = checkpointer._take()
        assert isinstance(taken, Checkpoint)
        checkpointer._write(taken)

    monkeypatch.setattr(Checkpointer, "save", saved)
    monkeypatch.setattr(Checkpointer, "_write_all", lambda _checkpointer: None)


def _delete(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink()


@pytest.fixture(params=["none", "flush", "fsync"])
def durability(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory in memory where the system has such, because the tests write tens of thousands of files."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="penstock-test-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def recorded(root: Path, durability: str) -> tuple[SimulatedDisk, Expected]:
    """Two lives on one directory; between them only the process ended."""
    disk, expected = SimulatedDisk(root), Expected()
    with disk.recording():
        Life(root, durability).live(disk, expected, batches=5)
        Life(root, durability).live(disk, expected, batches=4)
    return disk, expected


def test_power_failure_at_any_operation_loses_nothing_that_was_promised(
    recorded: tuple[SimulatedDisk, Expected], durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, expected = recorded
    # Its recovery promises what that of `flush` does.
    choices = CHOICES if durability != "none" else [(Survival.NOTHING, 0), (Survival.TORN, 0)]
    monkeypatch.setattr(recovery_module, "boot_id", lambda: "second boot")
    for (survival, image), count in disk.images(choices).items():
        disk.restore(image)
        try:
            check(Life(disk.root, durability), expected, count, durability, survival)
        except Exception as error:
            error.add_note(f"{survival} survives after {count} of {len(disk.operations)} operations")
            error.add_note(f"the last operations: {disk.operations[max(count - 3, 0) : count]}")
            raise


def check(life: Life, expected: Expected, count: int, durability: str, survival: Survival) -> None:
    synced = [(number, began) for number, (began, ended) in expected.synced.items() if ended <= count]
    if synced:
        number, began = max(synced)
        assert life.checkpoint is not None
        assert life.checkpoint.number >= number
        for block_id, position in expected.acknowledged.items():
            # Without durability, events may still be in the memory of the process.
            assert (
                position > began
                or durability == "none"
                or not life.blocks.state.new([StoredBlock(block_id, 0, 3, 1, "")])
            )
    restored_ms, state = life.restored()
    if restored_ms >= 0:
        assert {key: sorted(records) for key, records in state.items()} == {
            key: sorted(records) for key, records in expected.states[restored_ms].items()
        }
    allocated = [
        block
        for time_ms in life.blocks.state.times
        if time_ms > restored_ms
        for block in life.blocks.blocks_of_batch(time_ms, 0)
    ]
    remaining = life.readable([*allocated, *life.blocks.state.unallocated(0)])
    assert remaining == {block_id: expected.records[block_id] for block_id in remaining}
    in_state = [record for records in state.values() for record in records]
    found = in_state + [record for records in remaining.values() for record in records]
    assert len(found) == len(set(found)), "a record counts twice"
    if durability == "fsync" or (durability == "flush" and survival is Survival.ALL):
        acknowledged = [block_id for block_id, position in expected.acknowledged.items() if position <= count]
        assert set(found) >= {record for block_id in acknowledged for record in expected.records[block_id]}
