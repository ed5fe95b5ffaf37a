"""State and windows of recovered runs are right, from every retained checkpoint and with damaged newest files."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from pyspark import RDD
from tests.helpers.runs import INTERVAL_MS, Hold, Output, Runs, numbered
from tests.helpers.simulated_disk import synced_path

from penstock import DStream, State, StateSpec, StreamingContext
from penstock.checkpoint.checkpoint_store import CheckpointStore
from penstock.storage.directory import Directory
from penstock_testing import ManualClock

pytestmark = pytest.mark.spark

Operation = Callable[[DStream[Any]], DStream[Any]]


def numbers(number: int) -> list[Any]:
    return [("all", number), (f"key {number % 3}", 1)]


def add(a: int, b: int) -> int:
    return a + b


def subtract(a: int, b: int) -> int:
    return a - b


def total(new: list[int], old: int | None) -> int:
    return sum(new) + (old or 0)


def total_and_more(new: list[int], old: int | None) -> int:
    return sum(new) + (old or 0) + 1000


def count_all(key: str, value: Any, state: Any) -> tuple[str, int]:
    before = state.get() if state.exists() else 0
    state.update(before + value)
    return key, before + value


def updated(stream: DStream[Any]) -> DStream[Any]:
    return stream.updateStateByKey(total, 1)


def mapped(stream: DStream[Any], interval_s: float | None = None) -> DStream[Any]:
    with_state = stream.mapWithState(StateSpec.function(count_all).numPartitions(2))
    return (with_state if interval_s is None else with_state.checkpoint(interval_s)).stateSnapshots()


def mapped_often(stream: DStream[Any]) -> DStream[Any]:
    return mapped(stream, OFTEN_S)


def slid(stream: DStream[Any]) -> DStream[Any]:
    return stream.reduceByKeyAndWindow(add, subtract, 6, 1, 1)


def slid_by_two(stream: DStream[Any]) -> DStream[Any]:
    return stream.reduceByKeyAndWindow(add, subtract, 6, 2, 1)


def chained(states: DStream[Any]) -> DStream[Any]:
    return states.updateStateByKey(total, 1)


def windowed_state(states: DStream[Any]) -> DStream[Any]:
    return states.window(3, 1)


def windowed(stream: DStream[Any]) -> DStream[Any]:
    return stream.reduceByKeyAndWindow(add, None, 3, 1, 1)


def sums(first: int, last: int) -> dict[str, int]:
    made: dict[str, int] = {}
    for number in range(max(first, 1), last + 1):
        for key, value in numbers(number):
            made[key] = made.get(key, 0) + value
    return made


def state_after(number: int) -> list[Any]:
    return [[key, value] for key, value in sums(1, number).items()]


def slid_after(number: int) -> list[Any]:
    return [[key, value] for key, value in sums(number - 5, number).items()]


def slid_by_two_after(number: int) -> list[Any] | None:
    return None if number % 2 else slid_after(number)


def chained_after(number: int) -> list[Any]:
    made: dict[str, int] = {}
    for each in range(1, number + 1):
        for key, value in sums(1, each).items():
            made[key] = made.get(key, 0) + value
    return [[key, value] for key, value in made.items()]


def windowed_state_after(number: int) -> list[Any]:
    return [pair for each in range(max(number - 2, 1), number + 1) for pair in state_after(each)]


def windowed_after(number: int) -> list[Any]:
    return [[key, value] for key, value in sums(number - 2, number).items()]


# Between two checkpoints of a state: fewer batches than the ten by default, of which each takes its time.
OFTEN_S = 4
# The expected output of each operation after a batch; ``None`` for no output.
Expected = list[tuple[Operation, Callable[[int], list[Any] | None]]]
OPERATIONS: Expected = [
    (updated, state_after),
    (mapped_often, state_after),
    (slid, slid_after),
    (chained, chained_after),
    (slid_by_two, slid_by_two_after),
    (windowed_state, windowed_state_after),
    (windowed, windowed_after),
]
# The stream of these is that of ``updated``: its states are computed once for all of them.
OF_STATES = (chained, windowed_state)
CHECKPOINTED = (slid, slid_by_two, chained)


def named(name: str) -> Callable[[Any], Any]:
    return lambda pair: [name, *pair]


def in_one_task(rdd: RDD[Any]) -> RDD[Any]:
    return rdd.coalesce(1)


def build_all(output: Output, operations: list[Operation]) -> Callable[[StreamingContext], None]:
    """A program with every operation on one source; a batch is one Spark job of one task for each slide duration."""

    def build(context: StreamingContext) -> None:
        source = numbered(context, numbers)
        states = updated(source).checkpoint(OFTEN_S)
        made = {each: each(states if each in OF_STATES else source) for each in operations if each is not updated}
        for each in made.keys() & {*CHECKPOINTED}:
            made[each].checkpoint(OFTEN_S)
        streams = {each: stream.map(named(each.__name__)) for each, stream in {updated: states, **made}.items()}
        if slower := streams.pop(slid_by_two, None):
            output.collect(slower)
        output.collect(context.union(*streams.values()).transform(in_one_task))

    return build


def check(output: Output, expected: Expected, batches: range) -> None:
    # Of a batch that was run twice, the later output counts.
    got = {
        (name, time_ms // INTERVAL_MS): sorted([key, value] for each, key, value in records if each == name)
        for time_ms, records in output.written
        for name in {each for each, _key, _value in records}
    }
    for operation, after in expected:
        for number in batches:
            right = after(number)
            found = got.get((operation.__name__, number))
            assert found == (None if right is None else sorted(right)), f"{operation.__name__} after batch {number}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "outputs"
    made.mkdir()
    return made


def test_every_operation_recovers_twice_and_from_every_retained_checkpoint(runs: Runs, output: Output) -> None:
    build = build_all(output, [operation for operation, _after in OPERATIONS])
    first = runs.new(build).start()
    first.batches(3)
    before_any_table = runs.interrupt("before")
    first.batches(4)
    left = runs.interrupt("left")
    oldest = runs.interrupt("oldest")
    first.stop()
    check(output, OPERATIONS, range(1, 8))
    # How many there are depends on the writer: a checkpoint that waits is replaced by the next one.
    _retained, *younger = sorted(oldest.glob("checkpoint-*"))
    assert younger
    for number, path in enumerate(younger):
        path.write_bytes(path.read_bytes()[: 10 * number])
    # The batches of the downtime are generated too.
    for copy, after, missed in ((left, 7, 8), (left, 9, 9), (oldest, 7, 8), (before_any_table, 5, 4)):
        output.forget()
        runs.clock = ManualClock(after * INTERVAL_MS)
        run = runs.new(build, copy).start()
        run.batches(1)
        run.stop()
        check(output, OPERATIONS, range(missed, after + 2))
    assert runs.created == 1


def test_recovery_after_a_graceful_stop_repeats_no_batch(runs: Runs, output: Output) -> None:
    which = OPERATIONS[:4]
    build = build_all(output, [operation for operation, _after in which])
    first = runs.new(build).start()
    first.batches(4)
    first.stop_gracefully()
    last = runs.clock.now_ms() // INTERVAL_MS
    output.forget()
    second = runs.new(build).start()
    second.batches(2)
    second.stop()
    assert sorted(output.batches) == [last + 1, last + 2]
    check(output, which, range(last + 1, last + 3))


def test_state_is_restored_as_old_as_a_state_computed_from_it(runs: Runs, output: Output) -> None:
    def build(context: StreamingContext) -> None:
        first = numbered(context, numbers).updateStateByKey(total, 1).checkpoint(2)
        output.collect(first.updateStateByKey(total, 1).checkpoint(4).map(named("chained")))

    run = runs.new(build).start()
    run.batches(7)
    left = runs.interrupt()
    run.stop()
    output.forget()
    second = runs.new(build, left).start()
    second.batches(1)
    check(output, [(chained, chained_after)], range(8, 9))


def keep_total(_key: str, value: int, state: State[int]) -> None:
    state.update((state.getOption() or 0) + value)


def test_state_that_a_checkpoint_names_is_on_the_disk(
    runs: Runs, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(context: StreamingContext) -> None:
        pairs = numbered(context, numbers)
        output.collect(pairs.updateStateByKey(total, 1).checkpoint(2))
        output.collect(pairs.mapWithState(StateSpec.function(keep_total).numPartitions(2)).checkpoint(2))

    synced: set[Path] = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(synced_path(descriptor)))
    run = runs.new(build).start()
    run.batches(5)
    run.stop()
    newest = CheckpointStore(Directory.of(str(runs.directory))).newest()
    assert newest is not None
    rdds = [runs.directory / path for state in newest.states for path in state.files.values()]
    files = {path for rdd in rdds for path in rdd.rglob("*")}
    assert len(rdds) >= 2
    assert files
    assert files <= synced
    # Files of later batches are not named by a checkpointed RDD.
    (store,) = [runs.directory / state.store for state in newest.states if state.store]
    named = {path for path in store.rglob("*.db") if int(path.name.partition("-")[0]) <= 4 * INTERVAL_MS}
    assert named
    assert {*named, store, *rdds} <= synced


def initial_states(context: StreamingContext) -> Any:
    return context.sparkContext.parallelize([("all", 100)])


@pytest.mark.parametrize(("batches", "created"), [(2, 2), (5, 1)])
def test_initial_states_in_an_rdd_are_used_once(batches: int, created: int, runs: Runs, output: Output) -> None:
    def build(context: StreamingContext) -> None:
        stream = numbered(context, numbers).updateStateByKey(total, 1, initial_states(context))
        output.collect(stream.checkpoint(4))

    run = runs.new(build).start()
    run.batches(batches)
    left = runs.interrupt()
    run.stop()
    second = runs.new(build, left).start()
    second.batches(1)
    assert runs.created == created
    assert dict(output.batches[batches + 1])["all"] == 100 + sums(1, batches + 1)["all"]


def test_changed_program_has_its_earlier_state(runs: Runs, folder: Path) -> None:
    runs.configure(checkpoint_rebuild="true")

    def build(*, changed: bool) -> Callable[[StreamingContext], None]:
        def build(context: StreamingContext) -> None:
            source = numbered(context, numbers)
            if changed:
                Output(folder / "added").collect(source.updateStateByKey(total, 1).setName("added"))
            function = total_and_more if changed else total
            Output(folder / "updated").collect(source.updateStateByKey(function, 1).setName("sums"))
            Output(folder / "mapped").collect(mapped(source))

        return build

    first = runs.new(build(changed=False)).start()
    first.batches(11)
    left = runs.interrupt()
    first.stop()
    second = runs.new(build(changed=True), left).start()
    second.batches(1)
    assert runs.created == 2
    assert sorted(Output(folder / "mapped").batches[12]) == sorted(state_after(12))
    # It ran for batches 11 and 12: the checkpointed RDD is that of batch 10.
    assert dict(Output(folder / "updated").batches[12])["all"] == sums(1, 12)["all"] + 2000


@frozen
class NoteAttempt:
    """An output that records its name, its batch and the number of runs that have begun the batch."""

    path: Path
    name: str
    hold: Hold

    def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
        attempt = rdd.context.getLocalProperty("spark.penstock.batch.attempt")
        with self.path.with_suffix(".runs").open("a") as file:
            file.write(f"{rdd.context.getLocalProperty('spark.penstock.run')}\n")
        with self.path.open("a") as file:
            file.write(f"{self.name} {round(time.timestamp())} {attempt} {dict(rdd.collect())['all']}\n")
        self.hold()


def test_completed_outputs_are_skipped_and_others_repeated(runs: Runs, tmp_path: Path) -> None:
    runs.configure(outputs_skipCompleted="true")
    notes, hold = tmp_path / "notes", Hold(tmp_path / "hold")

    def build(context: StreamingContext) -> None:
        source = numbered(context, numbers)
        updated(source).foreachRDD(NoteAttempt(notes, "state", Hold(tmp_path / "never")))
        source.foreachRDD(NoteAttempt(notes, "source", hold))

    first = runs.new(build).start()
    first.batches(2)
    # While the second output runs.
    left = runs.interrupt_at(hold)
    first.stop()
    notes.unlink()
    # No checkpoint says whether batch 4 was begun.
    runs.clock.advance(INTERVAL_MS)
    second = runs.new(build, left).start()
    second.batches(1)
    made_again, missed, new = ["source 3 2 3"], ["state 4 2 10", "source 4 2 4"], ["state 5 1 15", "source 5 1 5"]
    assert notes.read_text().splitlines() == [*made_again, *missed, *new]
    # A recovered run keeps its id.
    (run,) = set(notes.with_suffix(".runs").read_text().split())
    assert run not in ("None", "")
