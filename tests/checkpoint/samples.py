"""Checkpoints, a disk and a program that the tests of this folder share."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from tests.helpers.fake_graph import FakeContext, FakeInput
from tests.helpers.memory_directory import MemoryDirectory

from penstock import DStream
from penstock.checkpoint.checkpoint_format import (
    Checkpoint,
    LateBatches as LateBatches,
    SavedInput as SavedInput,
    SavedState as SavedState,
)
from penstock.checkpoint.restore.restore_streams import restore_streams
from penstock.checkpoint.stream_names import assign, function_name
from penstock.spark.rdd_files import RunFolder

#: The first checkpoint of a run.
FIRST = Checkpoint(
    number=1,
    written_ms=0,
    application="store",
    run="run",
    versions={"penstock": "1"},
    hash_seed="0",
    batch_interval_ms=1000,
    zero_time_ms=0,
    last_time_ms=0,
)

#: Where the checkpoint directory is when a program recovers.
FOLDER = RunFolder("now", "file:/new/place")


def numbered(number: int) -> Checkpoint:
    """The ``number``-th checkpoint of a run with one state."""
    state = SavedState(
        "state", "updateStateByKey", "app.py:1", 2, "portable_hash", {number * 1000: f"run/rdd-{number}"}
    )
    return evolve(FIRST, number=number, last_time_ms=number * 1000, pending={number * 1000: 1}, states=[state])


class Disk(MemoryDirectory):
    """A directory in memory in which a file appears whole or not at all."""

    def write(self, name: str, data: bytes, *, sync: bool = False) -> None:
        self.note("write", name)
        self.files[name] = bytearray(data)


def total(new: list[int], old: int | None) -> int:
    """The update function of a running sum."""
    return sum(new) + (old or 0)


class FakeProgram:
    """A program under construction, on streams without Spark."""

    def __init__(self) -> None:
        self.context = FakeContext()
        self.graph = self.context.graph
        self.graph.batch_interval_ms = 1000
        self.source = self.input()

    def input(self) -> FakeInput:
        return FakeInput(self.context, lambda _time_ms: [[("a", 1)]])

    def state(self, name: str | None = None) -> DStream[Any]:
        """Add a running sum with an output."""
        made = self.source.updateStateByKey(total)
        if name is not None:
            made.setName(name)
        made.foreachRDD(print)
        return made

    def output(self, stream: DStream[Any]) -> DStream[Any]:
        """Add an output to a stream."""
        stream.foreachRDD(print)
        return stream

    def states(self) -> dict[str, Any]:
        """The stateful streams by name."""
        return assign(self.graph.stateful_streams(), self.graph.streams())

    @property
    def names(self) -> list[str]:
        return list(self.states())

    def saved(self, **values: Any) -> Checkpoint:
        """The checkpoint that a run of it would write after batch 10, with the states of that batch."""
        states = [
            SavedState(
                name,
                stream.call_site.operation,
                stream.call_site.short,
                stream.num_partitions,
                function_name(stream.partition_function),
                {10_000: f"before/{name}"},
                f"before/{stream.home}" if stream.home else "",
            )
            for name, stream in self.states().items()
        ]
        inputs = [
            SavedInput(name, stream.call_site.operation, stream.id)
            for name, stream in assign(self.graph.inputs, self.graph.inputs).items()
        ]
        made = evolve(FIRST, number=5, last_time_ms=10_000, states=states, inputs=inputs)
        return evolve(made, **values)

    def restore(self, checkpoint: Checkpoint, *, drops: bool = False) -> int | None:
        """Restore its streams from a checkpoint; return the time after which states are recomputed."""
        return restore_streams(self.graph, checkpoint, FOLDER, drops=drops)[0].oldest_ms

    @property
    def restored(self) -> dict[str, dict[int, str]]:
        """The files that states have been restored from, by stream name."""
        return {name: stream.checkpointed() for name, stream in self.states().items() if stream.checkpointed()}
