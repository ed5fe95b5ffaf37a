"""Names and reattachment: what is the same stream in another run, and never a guess."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from tests.checkpoint.test_checkpoint_store import FIRST
from tests.graph.conftest import FakeContext, FakeInput, FakeRDD

from penstock import DStream, StateSpec
from penstock.checkpoint.manifest import Checkpoint, SavedInput, SavedTable
from penstock.checkpoint.restore_streams import function_name, reattach
from penstock.checkpoint.stream_names import automatic, is_automatic, named
from penstock.errors import CheckpointError, ConfigurationError
from penstock.graph.state import stateful
from penstock.spark.checkpoint import RunFolder

FOLDER = RunFolder("now", "file:/new/place")


def total(new: list[int], old: int | None) -> int:
    return sum(new) + (old or 0)


def another_total(new: list[int], old: int | None) -> int:
    return sum(new) - (old or 0)


def other_hash(key: Any) -> int:
    return len(key)


def count(key: str, value: Any, state: Any) -> Any:
    return value


class Program:
    """A program under construction, on streams without Spark."""

    def __init__(self) -> None:
        self.context = FakeContext()
        self.context.graph.batch_interval_ms = 1000
        self.source = self.input()

    def input(self) -> FakeInput:
        return FakeInput(self.context, lambda _time_ms: [[("a", 1)]])

    def state(self, name: str | None = None) -> DStream[Any]:
        made = self.source.updateStateByKey(total)
        if name is not None:
            made.setName(name)
        made.foreachRDD(print)
        return made

    def output(self, stream: DStream[Any]) -> DStream[Any]:
        stream.foreachRDD(print)
        return stream

    @property
    def names(self) -> list[str]:
        return list(named(self.context.graph.stateful_streams(), self.context.graph.streams()))

    def tables(self) -> dict[str, Any]:
        return named(self.context.graph.stateful_streams(), self.context.graph.streams())

    def saved(self, **values: Any) -> Checkpoint:
        """What a run of it would write, with a table of batch 10."""
        tables = [
            SavedTable(
                name,
                table.call_site.operation,
                table.call_site.short,
                table.num_partitions,
                function_name(table.partition_function),
                {10_000: f"before/{name}"},
                f"before/{table.home}" if table.home else "",
            )
            for name, table in self.tables().items()
        ]
        inputs = [
            SavedInput(name, stream.call_site.operation, stream.id)
            for name, stream in named(self.context.graph.inputs, self.context.graph.inputs).items()
        ]
        made = evolve(FIRST, number=5, last_time_ms=10_000, tables=tables, inputs=inputs)
        return evolve(made, **values)

    def reattach(self, checkpoint: Checkpoint, *, drops: bool = False) -> int | None:
        return reattach(self.context.graph, checkpoint, FOLDER, drops=drops)

    @property
    def restored(self) -> dict[str, dict[int, str]]:
        """The files that tables have taken up."""
        return {name: table.checkpointed() for name, table in self.tables().items() if table.checkpointed()}


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateful, "checkpointed_table", lambda *_args: FakeRDD([[]]))


def taken_up(*names: str) -> dict[str, dict[int, str]]:
    return {name: {10_000: f"file:/new/place/before/{name}"} for name in names}


# -- names --


def test_streams_without_names_are_counted_by_their_operation() -> None:
    program = Program()
    program.state()
    program.output(program.source.mapWithState(StateSpec.function(count)))
    program.state()
    assert program.names == ["updateStateByKey-0", "mapWithState-0", "updateStateByKey-1"]


def test_set_name_names_the_table_behind_what_the_program_sees() -> None:
    program = Program()
    program.state("sums")
    program.output(program.source.mapWithState(StateSpec.function(count)).setName("seen"))
    program.output(program.source.countByWindow(6, 1).setName("rate"))
    program.output(program.source.reduceByKeyAndWindow(operator.add, operator.sub, 6, 1).setName("slid"))
    assert program.names == ["sums", "seen", "rate", "slid"]


def test_what_is_not_reached_by_an_output_has_no_name() -> None:
    program = Program()
    program.source.updateStateByKey(total)
    program.state()
    assert program.names == ["updateStateByKey-0"]


def test_two_with_one_name_are_refused_with_both_places() -> None:
    program = Program()
    program.state("twice")
    program.state("twice")
    with pytest.raises(ConfigurationError, match=r"'twice', made by .*test_reattachment.py:\d+ and .*setName"):
        program.names  # noqa: B018


def test_an_automatic_name_that_is_said_of_another_is_not_given_again() -> None:
    program = Program()
    program.state()
    program.state("updateStateByKey-0")
    assert program.names == ["updateStateByKey-1", "updateStateByKey-0"]


@pytest.mark.parametrize("name", ["", " ", 3, None])
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="name must be text"):
        Program().source.setName(name)


@pytest.mark.parametrize(
    ("name", "result"), [("map-0", True), ("map-12", True), ("map-", False), ("map-x", False), ("m-0", False)]
)
def test_automatic_names_are_known(name: str, result: bool) -> None:
    assert is_automatic(name, "map") is result
    assert is_automatic(automatic("map", 3), "map")


# -- reattachment --


def test_states_go_to_their_names_in_the_directory_where_it_is_now() -> None:
    before, now = Program(), Program()
    before.state("a")
    before.state()
    now.state("a")
    now.state()
    assert now.reattach(before.saved()) == 10_000
    assert now.restored == taken_up("a", "updateStateByKey-0")


def test_order_and_functions_may_change_and_operators_may_come() -> None:
    before, now = Program(), Program()
    before.state("a")
    before.state("b")
    now.state("new")
    now.state("b")
    now.output(now.source.updateStateByKey(another_total).setName("a"))
    now.reattach(before.saved())
    assert now.restored == taken_up("a", "b")


def test_a_number_of_partitions_is_that_of_the_state() -> None:
    before, now = Program(), Program()
    before.output(before.source.updateStateByKey(total, 7).setName("a"))
    now.output(now.source.updateStateByKey(total, 3).setName("a"))
    now.reattach(before.saved())
    assert now.tables()["a"].num_partitions == 7


def removed(program: Program) -> None:
    program.state("b")


def renamed(program: Program) -> None:
    program.state("other")
    program.state("b")


def of_another_kind(program: Program) -> None:
    program.output(program.source.mapWithState(StateSpec.function(count)).setName("a"))
    program.state("b")


def partitioned_otherwise(program: Program) -> None:
    program.source.updateStateByKey(total).setName("a").foreachRDD(print)
    table = program.tables()["a"]
    table._partition_function = other_hash
    program.state("b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (removed, "the state of a has no place: no updateStateByKey has that name here"),
        (renamed, "the state of a has no place"),
        (of_another_kind, "the state of a was a updateStateByKey's, and here a mapWithState has that name"),
        (
            partitioned_otherwise,
            "the state of a is partitioned by pyspark.*portable_hash, and would be by .*other_hash",
        ),
    ],
)
def test_a_state_without_a_place_is_refused_or_dropped(change: Callable[[Program], None], message: str) -> None:
    before, now, again = Program(), Program(), Program()
    before.state("a")
    before.state("b")
    change(now)
    with pytest.raises(CheckpointError, match=f"checkpoint 5: {message}.*there: a, b; here:.*drop-state"):
        now.reattach(before.saved())
    assert now.restored == {}
    change(again)
    again.reattach(before.saved(), drops=True)
    assert again.restored == taken_up("b")


def test_which_of_two_unnamed_is_meant_is_not_guessed_and_the_name_to_give_helps() -> None:
    before, now, helped = Program(), Program(), Program()
    before.state()
    now.state()
    now.state()
    with pytest.raises(CheckpointError, match=r"1 unnamed updateStateByKey there, 2 here.*'updateStateByKey-0'"):
        now.reattach(before.saved())
    helped.state()
    helped.state("updateStateByKey-0")
    helped.reattach(before.saved())
    assert helped.restored == taken_up("updateStateByKey-0")


def test_one_name_of_two_given_leaves_the_other_a_guess() -> None:
    before, now = Program(), Program()
    before.state()
    before.state()
    now.state()
    now.state("updateStateByKey-0")
    now.state()
    with pytest.raises(CheckpointError, match=r"'updateStateByKey-1'"):
        now.reattach(before.saved())


def test_of_two_unnamed_one_is_left_and_which_is_not_guessed() -> None:
    before, now = Program(), Program()
    before.state()
    before.state()
    now.state()
    with pytest.raises(CheckpointError, match="2 unnamed updateStateByKey there, 1 here"):
        now.reattach(before.saved())


def named_input(program: Program, name: str) -> FakeInput:
    made = program.input()
    made.setName(name)
    return made


def test_inputs_keep_their_numbers_and_new_ones_have_others() -> None:
    before, now = Program(), Program()
    before.source.setName("source")
    for name in ("x", "y"):
        before.output(named_input(before, name))
    now.output(named_input(now, "new"))
    now.output(named_input(now, "y"))
    now.output(named_input(now, "x"))
    now.source.setName("source")
    before.state("a")
    now.state("a")
    now.reattach(before.saved())
    assert {stream.name: stream.id for stream in now.context.graph.inputs} == {"source": 0, "x": 1, "y": 2, "new": 3}


def test_the_number_of_an_input_that_is_no_more_is_not_given_again() -> None:
    # It was the highest, and no checkpoint that is left has it: its blocks may be there still.
    before, now = Program(), Program()
    for program in (before, now):
        program.source.setName("source")
        program.state("a")
    now.output(named_input(now, "new"))
    now.reattach(before.saved(next_stream_id=3))
    assert {stream.name: stream.id for stream in now.context.graph.inputs} == {"source": 0, "new": 3}


# -- which table of those that are there --


def with_files(program: Program, files: dict[str, list[int]], **values: Any) -> Checkpoint:
    saved = program.saved(**values)
    tables = [
        evolve(table, files={number * 1000: f"before/{number}" for number in files[table.name]})
        for table in saved.tables
    ]
    return evolve(saved, tables=tables)


def chain(second_checkpoint: float = 10.0, first_checkpoint: float = 10.0) -> Program:
    program = Program()
    first = program.source.updateStateByKey(total).setName("first").checkpoint(first_checkpoint)
    program.output(first.updateStateByKey(total).setName("second").checkpoint(second_checkpoint))
    return program


def chosen(program: Program) -> dict[str, list[int]]:
    return {name: [time // 1000 for time in files] for name, files in program.restored.items()}


def test_no_table_is_taken_up_that_is_younger_than_a_batch_to_make_again() -> None:
    program = Program()
    program.state("a")
    checkpoint = with_files(program, {"a": [10, 20]}, last_time_ms=21_000, pending={19_000: 1, 20_000: 1, 21_000: 1})
    assert program.reattach(checkpoint) == 10_000
    assert chosen(program) == {"a": [10]}


def test_the_table_of_a_batch_that_is_to_be_made_again_serves() -> None:
    program = Program()
    program.state("a")
    assert program.reattach(with_files(program, {"a": [10, 20]}, last_time_ms=21_000, pending={20_000: 1})) == 20_000
    assert chosen(program) == {"a": [10, 20]}


def test_a_state_is_no_younger_than_that_which_is_made_of_it() -> None:
    program = chain(first_checkpoint=4.0)
    files = {"first": [4, 8, 12, 16], "second": [10]}
    assert program.reattach(with_files(program, files, last_time_ms=17_000)) == 8_000
    assert chosen(program) == {"first": [4, 8], "second": [10]}


def test_before_the_second_has_a_table_all_is_made_again_from_the_beginning() -> None:
    program = chain()
    checkpoint = with_files(program, {"first": [10], "second": []}, last_time_ms=11_000, pending={10_000: 1})
    assert program.reattach(checkpoint) == 0
    assert chosen(program) == {}


def test_states_that_have_nothing_to_do_with_each_other_are_as_young_as_they_are() -> None:
    program = Program()
    program.state("a")
    program.state("b")
    files = {"a": [90, 100], "b": [103, 104]}
    assert program.reattach(with_files(program, files, last_time_ms=104_000)) == 100_000
    assert chosen(program) == {"a": [90, 100], "b": [103, 104]}


def test_a_state_that_came_late_does_not_have_all_made_again() -> None:
    program = chain()
    begin_ms = program.reattach(with_files(program, {"first": [990, 1000], "second": []}, last_time_ms=1001_000))
    assert begin_ms is not None
    assert begin_ms >= 970_000
    assert chosen(program) == {"first": [990]}


def test_a_window_on_a_state_finds_the_states_within_it() -> None:
    program = Program()
    program.output(program.source.updateStateByKey(total).setName("a").window(4, 1))
    assert program.reattach(with_files(program, {"a": [10, 20]}, last_time_ms=21_000)) == 10_000
    assert chosen(program) == {"a": [10]}
