"""Restore points: which of the checkpointed RDDs each state is restored from."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.checkpoint.samples import FakeProgram, total
from tests.helpers.fake_graph import FakeRDD

from penstock.checkpoint.checkpoint_format import BatchRange, Checkpoint, LateBatches
from penstock.checkpoint.restore.restore_streams import restore_sequence
from penstock.graph import stateful
from penstock.spi import node_of


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateful, "checkpointed_state", lambda *_args: FakeRDD([[]]))


def with_files(program: FakeProgram, files: dict[str, list[int]], **values: Any) -> Checkpoint:
    saved = program.saved(**values)
    states = [
        evolve(state, files={number * 1000: f"before/{number}" for number in files[state.name]})
        for state in saved.states
    ]
    return evolve(saved, states=states)


def chain(second_checkpoint: float = 10.0, first_checkpoint: float = 10.0) -> FakeProgram:
    program = FakeProgram()
    first = program.source.updateStateByKey(total).setName("first").checkpoint(first_checkpoint)
    program.output(first.updateStateByKey(total).setName("second").checkpoint(second_checkpoint))
    return program


def chosen(program: FakeProgram) -> dict[str, list[int]]:
    return {name: [time // 1000 for time in files] for name, files in program.restored.items()}


def test_rdd_younger_than_a_pending_batch_is_not_used() -> None:
    program = FakeProgram()
    program.state("a")
    checkpoint = with_files(program, {"a": [10, 20]}, last_time_ms=21_000, pending={19_000: 1, 20_000: 1, 21_000: 1})
    assert program.restore(checkpoint) == 10_000
    assert chosen(program) == {"a": [10]}


def test_rdd_younger_than_a_late_batch_is_not_used() -> None:
    program = FakeProgram()
    program.state("a")
    late = [LateBatches(12_000, 21_000, 1)]
    assert program.restore(with_files(program, {"a": [10, 20]}, last_time_ms=21_000, late=late)) == 10_000


def test_rdd_of_a_pending_batch_is_used() -> None:
    program = FakeProgram()
    program.state("a")
    assert program.restore(with_files(program, {"a": [10, 20]}, last_time_ms=21_000, pending={20_000: 1})) == 20_000
    assert chosen(program) == {"a": [10, 20]}


def test_state_is_not_younger_than_a_state_computed_from_it() -> None:
    program = chain(first_checkpoint=4.0)
    files = {"first": [4, 8, 12, 16], "second": [10]}
    assert program.restore(with_files(program, files, last_time_ms=17_000)) == 8_000
    assert chosen(program) == {"first": [4, 8], "second": [10]}


def test_everything_is_recomputed_while_a_dependent_state_has_no_rdd() -> None:
    program = chain()
    checkpoint = with_files(program, {"first": [10], "second": []}, last_time_ms=11_000, pending={10_000: 1})
    assert program.restore(checkpoint) == 0
    assert chosen(program) == {}


def test_independent_states_are_each_restored_from_their_youngest_rdd() -> None:
    program = FakeProgram()
    program.state("a")
    program.state("b")
    files = {"a": [90, 100], "b": [103, 104]}
    assert program.restore(with_files(program, files, last_time_ms=104_000)) == 100_000
    assert chosen(program) == {"a": [90, 100], "b": [103, 104]}


def test_recently_added_state_does_not_cause_full_recomputation() -> None:
    program = chain()
    begin_ms = program.restore(with_files(program, {"first": [990, 1000], "second": []}, last_time_ms=1001_000))
    # Two of its checkpoint intervals before the next batch: by then it would have had an RDD.
    assert begin_ms == 1002_000 - 2 * 10_000
    assert chosen(program) == {"first": [990]}


def test_state_without_an_rdd_is_computed_from_before_skipped_times() -> None:
    program = FakeProgram()
    program.state("a")
    skipped = [BatchRange(4_000, 7_000), BatchRange(12_000, 3600_000)]
    assert program.restore(with_files(program, {"a": []}, last_time_ms=3604_000, skipped=skipped)) == 0
    # Skipped times before the batches that can belong to the state change nothing.
    assert program.restore(with_files(program, {"a": []}, last_time_ms=3635_000, skipped=skipped)) == 3616_000


def test_first_rdd_after_skipped_times_is_not_the_oldest_remaining_one() -> None:
    program = chain()
    skipped = [BatchRange(4_000, 3600_000)]
    files = {"first": [3610], "second": []}
    assert program.restore(with_files(program, files, last_time_ms=3611_000, skipped=skipped)) == 0
    assert chosen(program) == {}


def test_state_is_old_enough_for_a_window_on_it() -> None:
    program = FakeProgram()
    program.output(program.source.updateStateByKey(total).setName("a").window(4, 1))
    assert program.restore(with_files(program, {"a": [10, 20]}, last_time_ms=21_000)) == 10_000
    assert chosen(program) == {"a": [10]}


def test_window_that_is_remembered_needs_no_older_state() -> None:
    program = FakeProgram()
    windowed = program.output(program.source.updateStateByKey(total).setName("a").window(4, 1))
    node_of(windowed).remember(5000)
    assert program.restore(with_files(program, {"a": [10, 20]}, last_time_ms=21_000)) == 10_000


def sequence(program: FakeProgram, checkpoint: Checkpoint) -> list[tuple[int, int, int | None]]:
    """First and last batch, and oldest restore point, of each step of a recovery, in seconds."""
    return [
        (points.first_ms // 1000, points.last_ms // 1000, points.oldest_ms and points.oldest_ms // 1000)
        for points in restore_sequence(checkpoint, program.graph, program.states())
    ]


def test_batch_that_failed_long_ago_needs_neither_later_batches_nor_later_states() -> None:
    program = FakeProgram()
    program.state("a")
    failed = with_files(program, {"a": [10, 90, 100]}, last_time_ms=104_000, pending={12_000: 1, 13_000: 1})
    assert sequence(program, failed) == [(12, 13, 10), (105, 105, 100)]
    program.restore(failed)
    # A later run may need the younger ones, too.
    assert chosen(program) == {"a": [10, 90, 100]}
    assert list(program.states()["a"]._generated) == [10_000]


@pytest.mark.parametrize(("last_failed", "later"), [(88, [90]), (89, [90]), (90, []), (91, [])])
def test_state_continues_from_an_rdd_that_is_younger_than_the_failed_batches(
    last_failed: int, later: list[int]
) -> None:
    program = FakeProgram()
    program.state("a")
    pending = dict.fromkeys(range(12_000, last_failed * 1000 + 1, 1000), 1)
    failed = with_files(program, {"a": [10, 90]}, last_time_ms=104_000, pending=pending)
    assert [oldest for _first, _last, oldest in sequence(program, failed)] == [10, *later]


def test_state_without_a_younger_rdd_is_recomputed_from_before_the_failed_batch() -> None:
    program = chain()
    failed = with_files(program, {"first": [10, 20], "second": [10]}, last_time_ms=24_000, pending={12_000: 1})
    assert sequence(program, failed) == [(12, 25, 10)]


def test_failed_batch_without_state_needs_only_itself() -> None:
    program = FakeProgram()
    program.output(program.source)
    late = [LateBatches(60_000, 3600_000, 1)]
    failed = program.saved(last_time_ms=3600_000, pending={12_000: 1, 59_000: 2}, late=late)
    assert sequence(program, failed) == [(12, 12, None), (59, 3601, None)]


def test_batch_that_failed_before_the_first_state_was_saved_is_computed_from_the_beginning() -> None:
    program = FakeProgram()
    program.state("a")
    # The first files have been deleted.
    failed = with_files(program, {"a": [90, 100]}, last_time_ms=104_000, pending={3_000: 1})
    assert sequence(program, failed) == [(3, 3, 0), (105, 105, 100)]
