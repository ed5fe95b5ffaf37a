"""Restoring streams: states, ids and positions go to the streams of the same name, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from attrs import evolve
from tests.checkpoint.samples import FakeProgram, SavedInput, total
from tests.helpers import do_nothing
from tests.helpers.fake_graph import FakeInput, FakeRDD

from penstock import StateSpec
from penstock.errors import CheckpointError
from penstock.graph import stateful
from penstock.graph.input_dstreams import PulledInputDStream


def another_total(new: list[int], old: int | None) -> int:
    return sum(new) - (old or 0)


def other_hash(key: Any) -> int:
    return len(key)


def first_value(_key: str, value: Any, _state: Any) -> Any:
    return value


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateful, "checkpointed_state", lambda *_args: FakeRDD([[]]))


def restored(*names: str) -> dict[str, dict[int, str]]:
    return {name: {10_000: f"file:/new/place/before/{name}"} for name in names}


def test_states_are_restored_by_name_from_a_moved_directory() -> None:
    before, now = FakeProgram(), FakeProgram()
    before.state("a")
    before.state()
    now.state("a")
    now.state()
    assert now.restore(before.saved()) == 10_000
    assert now.restored == restored("a", "updateStateByKey-0")


def test_streams_may_be_reordered_added_and_get_other_functions() -> None:
    before, now = FakeProgram(), FakeProgram()
    before.state("a")
    before.state("b")
    now.state("new")
    now.state("b")
    now.output(now.source.updateStateByKey(another_total).setName("a"))
    now.restore(before.saved())
    assert now.restored == restored("a", "b")


def test_restored_state_keeps_its_number_of_partitions() -> None:
    before, now = FakeProgram(), FakeProgram()
    before.output(before.source.updateStateByKey(total, 7).setName("a"))
    now.output(now.source.updateStateByKey(total, 3).setName("a"))
    now.restore(before.saved())
    assert now.states()["a"].num_partitions == 7


def remove(program: FakeProgram) -> None:
    program.state("b")


def rename(program: FakeProgram) -> None:
    program.state("other")
    program.state("b")


def change_operation(program: FakeProgram) -> None:
    program.output(program.source.mapWithState(StateSpec.function(first_value)).setName("a"))
    program.state("b")


def change_partitioning(program: FakeProgram) -> None:
    program.source.updateStateByKey(total).setName("a").foreachRDD(print)
    table = program.states()["a"]
    table.partition_function = other_hash
    program.state("b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove, "the state of a has no stream: the program has no updateStateByKey of that name"),
        (rename, "the state of a has no stream"),
        (
            change_operation,
            "the state of a belongs to updateStateByKey, and the program uses that name for mapWith",
        ),
        (
            change_partitioning,
            "the state of a is partitioned by pyspark.*portable_hash and the program partitions by .*other_hash",
        ),
    ],
)
def test_state_that_does_not_match_is_refused_or_dropped(change: Callable[[FakeProgram], None], message: str) -> None:
    before, now, again = FakeProgram(), FakeProgram(), FakeProgram()
    before.state("a")
    before.state("b")
    change(now)
    with pytest.raises(
        CheckpointError, match=f"checkpoint 5: {message}.*checkpoint: a, b; of the program:.*drop-state"
    ):
        now.restore(before.saved())
    assert now.restored == {}
    change(again)
    again.restore(before.saved(), drops=True)
    assert again.restored == restored("b")


def test_ambiguous_unnamed_stream_is_refused_and_the_suggested_name_resolves_it() -> None:
    before, now, helped = FakeProgram(), FakeProgram(), FakeProgram()
    before.state()
    now.state()
    now.state()
    with pytest.raises(CheckpointError, match=r"has 1 unnamed updateStateByKey, the program 2\..*'updateStateByKey-0'"):
        now.restore(before.saved())
    helped.state()
    helped.state("updateStateByKey-0")
    helped.restore(before.saved())
    assert helped.restored == restored("updateStateByKey-0")


def test_naming_one_of_two_streams_leaves_the_other_ambiguous() -> None:
    before, now = FakeProgram(), FakeProgram()
    before.state()
    before.state()
    now.state()
    now.state("updateStateByKey-0")
    now.state()
    with pytest.raises(CheckpointError, match=r"'updateStateByKey-1'"):
        now.restore(before.saved())


def test_one_remaining_of_two_unnamed_streams_is_ambiguous() -> None:
    before, now = FakeProgram(), FakeProgram()
    before.state()
    before.state()
    now.state()
    with pytest.raises(CheckpointError, match="has 2 unnamed updateStateByKey, the program 1"):
        now.restore(before.saved())


def test_program_without_states_is_named_as_such() -> None:
    before, now = FakeProgram(), FakeProgram()
    before.state("a")
    with pytest.raises(CheckpointError, match=r"of the checkpoint: a; of the program: none\. Name"):
        now.restore(before.saved())


def test_state_store_is_recovered_from_the_moved_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    recovered: list[str] = []
    recover = stateful.StatefulDStream.recover

    def noted(stream: Any, files: Any, num_partitions: int, store: str) -> None:
        recovered.append(store)
        recover(stream, files, num_partitions, store)

    monkeypatch.setattr(stateful.StatefulDStream, "recover", noted)
    before, now = FakeProgram(), FakeProgram()
    before.state("a")
    now.state("a")
    saved = before.saved()
    for store in ("before/state/a", ""):
        now.restore(evolve(saved, states=[evolve(saved.states[0], store=store)]))
    assert recovered == ["/new/place/before/state/a", ""]


class Recoverable:
    """A source that notes from which position it continues."""

    def __init__(self) -> None:
        self.restored: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("open", "start", "stop", "clean_up", "compute", "compute_again", "position"):
            return do_nothing
        raise AttributeError(name)

    def restore(self, position: Any) -> None:
        self.restored.append(position)


@pytest.mark.parametrize("position", [{"time_ms": 9000, "source": {"line": 7}}, None])
def test_source_continues_from_its_saved_position(position: dict[str, Any] | None) -> None:
    now, source = FakeProgram(), Recoverable()
    PulledInputDStream(now.graph, lambda: cast(Any, source)).set_name("files")
    now.source.setName("source")
    # Only a pulled source has a position of its own.
    saved = [
        SavedInput("source", now.graph.inputs[0].call_site.operation, 0, position={"odd": 1}),
        SavedInput("files", now.graph.inputs[1].call_site.operation, 1, position=position),
    ]
    now.restore(evolve(now.saved(), inputs=saved))
    assert source.restored == ([] if position is None else [{"line": 7}])


def named_input(program: FakeProgram, name: str) -> FakeInput:
    made = program.input()
    made.setName(name)
    return made


def test_inputs_keep_their_stream_ids_and_new_inputs_get_unused_ones() -> None:
    before, now = FakeProgram(), FakeProgram()
    before.source.setName("source")
    for name in ("x", "y"):
        before.output(named_input(before, name))
    now.output(named_input(now, "new"))
    now.output(named_input(now, "y"))
    now.output(named_input(now, "x"))
    now.source.setName("source")
    before.state("a")
    now.state("a")
    now.restore(before.saved())
    assert {stream.name: stream.id for stream in now.context.graph.inputs} == {"source": 0, "x": 1, "y": 2, "new": 3}


def test_stream_id_of_a_removed_input_is_not_reused() -> None:
    # It was the highest id and no retained checkpoint mentions it, but its blocks may still exist.
    before, now = FakeProgram(), FakeProgram()
    for program in (before, now):
        program.source.setName("source")
        program.state("a")
    now.output(named_input(now, "new"))
    now.restore(before.saved(next_stream_id=3))
    assert {stream.name: stream.id for stream in now.context.graph.inputs} == {"source": 0, "new": 3}
