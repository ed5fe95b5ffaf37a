"""A model of runs whose batches fail and succeed in any order, with kills: what is deleted, no recovery needs."""

from __future__ import annotations

from attrs import define, evolve, field
from hypothesis import given, strategies as st
from tests.checkpoint.samples import FakeProgram

from penstock.blocks.block import StoredBlock
from penstock.checkpoint.checkpoint_format import Checkpoint
from penstock.checkpoint.restore.restore_streams import restore_sequence
from penstock.track.allocations import Allocations, batch_allocated, batches_cleaned, blocks_added

INTERVAL_MS = 1000
CHECKPOINT_MS = 4000
RETAINED = 3


@define
class Model:
    """A program with a sum as its state, if any: real retention and restore points, simulated batches.

    ``outputs`` has the state of each batch that reached the sink, ``files`` the checkpointed states that the stream
    lists, and ``disk`` those that exist.
    """

    stateful: bool
    program: FakeProgram = field(init=False)
    blocks: Allocations = field(factory=Allocations)
    checkpoints: list[Checkpoint] = field(factory=list)
    pending: set[int] = field(factory=set)
    files: set[int] = field(factory=set)
    disk: dict[int, int] = field(factory=dict)
    states: dict[int, int] = field(factory=lambda: {0: 0})
    outputs: dict[int, int] = field(factory=dict)
    last_ms: int = 0

    def __attrs_post_init__(self) -> None:
        self.program = FakeProgram()
        if self.stateful:
            stream = self.program.source.updateStateByKey(lambda new, old: sum(new) + (old or 0))
            self.program.output(stream.setName("sums").checkpoint(CHECKPOINT_MS / 1000))
        else:
            self.program.output(self.program.source)
        self.save()

    def block(self, time_ms: int) -> StoredBlock:
        return StoredBlock(f"input-0-1-{time_ms}", 0, 1, 100, f"/{time_ms}")

    def value(self, time_ms: int) -> int:
        """The record of a batch; fails if its block was deleted."""
        assert self.blocks.blocks(time_ms, 0) == [self.block(time_ms)], f"the block of {time_ms} was deleted"
        return time_ms

    def compute(self, time_ms: int) -> int:
        before = self.states[time_ms - INTERVAL_MS] if self.stateful else 0
        self.states[time_ms] = before + self.value(time_ms)
        return self.states[time_ms]

    def right(self, time_ms: int) -> int:
        return sum(range(0, time_ms + 1, INTERVAL_MS)) if self.stateful else time_ms

    def run(self, fails: bool) -> None:
        """A new batch, whose output fails or succeeds."""
        self.last_ms += INTERVAL_MS
        self.blocks.apply(blocks_added([self.block(self.last_ms)]))
        self.blocks.apply(batch_allocated(self.last_ms, {0: [self.block(self.last_ms).block_id]}))
        result = self.compute(self.last_ms)
        if self.stateful and self.last_ms % CHECKPOINT_MS == 0:
            self.files.add(self.last_ms)
            self.disk[self.last_ms] = result
        self.pending.add(self.last_ms)
        self.save()
        self.end(self.last_ms, result, fails)

    def end(self, time_ms: int, result: int, fails: bool) -> None:
        if not fails:
            self.outputs[time_ms] = result
            self.pending.discard(time_ms)
        self.save()

    def save(self) -> None:
        """Write a checkpoint, and delete what no retained one needs, as the Checkpointer does."""
        self.discard_files()
        states = [
            evolve(state, files={time_ms: str(time_ms) for time_ms in self.files})
            for state in self.program.saved().states
        ]
        pending = dict.fromkeys(sorted(self.pending), 1)
        saved = self.program.saved(last_time_ms=self.last_ms, pending=pending, needed_ms=self.last_ms, states=states)
        self.checkpoints = [*self.checkpoints, saved][-RETAINED:]
        oldest = self.checkpoints[0]
        points = restore_sequence(oldest, self.program.graph, self.program.states())
        retained = [range(point.since_ms, point.last_ms + 1) for point in points[:-1]]
        self.blocks.apply(batches_cleaned(min(oldest.needed_ms, points[-1].since_ms), retained))

    def discard_files(self) -> None:
        """Forget files as a stream does that remembers two checkpoint intervals."""
        needed = set[int]()
        for time_ms in (self.last_ms, *self.pending):
            older = [file for file in sorted(self.files) if file <= time_ms]
            needed.update([file for file in older if file > time_ms - 2 * CHECKPOINT_MS] or older[-1:])
        self.files = needed
        mentioned = {file for saved in self.checkpoints for state in saved.states for file in state.files}
        self.disk = {file: value for file, value in self.disk.items() if file in self.files | mentioned}

    def recover(self, fails: list[bool]) -> None:
        """Kill the run, and recover from its newest checkpoint: each pending batch fails again or succeeds."""
        checkpoint = self.checkpoints[-1]
        points = restore_sequence(checkpoint, self.program.graph, self.program.states())
        saved = {**self.disk, 0: 0}
        self.files = {file for state in checkpoint.states for file in state.files}
        reached_ms = -1
        self.states = {}
        again = sorted(checkpoint.pending)
        for number, time_ms in enumerate([*again, self.last_ms + INTERVAL_MS]):
            for point in points:
                if point.oldest_ms is not None and reached_ms < point.oldest_ms <= time_ms:
                    reached_ms = point.oldest_ms
                    self.states = {reached_ms: saved[reached_ms]}
            since_ms = reached_ms + INTERVAL_MS if self.stateful else time_ms
            for between_ms in range(since_ms, min(time_ms, self.last_ms) + 1, INTERVAL_MS):
                self.compute(between_ms)
            reached_ms = max(reached_ms, time_ms)
            if time_ms <= self.last_ms:
                result = self.states[time_ms] if self.stateful else self.value(time_ms)
                self.end(time_ms, result, number < len(fails) and fails[number])


STEPS = st.lists(st.one_of(st.booleans(), st.lists(st.booleans(), max_size=6)), max_size=60)


@given(stateful=st.booleans(), steps=STEPS)
def test_every_batch_reaches_the_output_with_its_state(stateful: bool, steps: list[bool | list[bool]]) -> None:
    model = Model(stateful)
    for step in steps:
        if isinstance(step, bool):
            model.run(fails=step)
        else:
            model.recover(step)
    model.recover([])
    assert model.outputs == {time: model.right(time) for time in range(INTERVAL_MS, model.last_ms + 1, INTERVAL_MS)}


def test_old_failed_batch_retains_a_checkpoint_interval_at_most() -> None:
    for stateful, most in ((False, 1), (True, CHECKPOINT_MS // INTERVAL_MS + 1)):
        model = Model(stateful)
        for number in range(1, 200):
            model.run(fails=number == 30)
        old = [time_ms for time_ms in model.blocks.times if time_ms < 150 * INTERVAL_MS]
        assert 30 * INTERVAL_MS in old
        assert len(old) <= most
        assert len(model.disk) <= 6
