"""``UnfinishedBatches``: a checkpoint has each batch that is not complete once, whatever the others do."""

from __future__ import annotations

from itertools import groupby

from attrs import evolve
from hypothesis import given, strategies as st

from penstock.schedule.unfinished_batches import UnfinishedBatches

INTERVAL_MS = 100
STAGES = ("late", "begun", "due", "pending", "dropped", "failed", "complete")


def times_of(stages: list[str], *wanted: str) -> set[int]:
    """The times of batches in these stages; the first batch is at one interval."""
    return {number * INTERVAL_MS for number, stage in enumerate(stages, 1) if stage in wanted}


def batches_of(stages: list[str]) -> UnfinishedBatches:
    """The value for batches in these stages; late batches that follow each other are one range."""
    runs = [list(run) for _stage, run in groupby(enumerate(stages, 1), key=lambda item: item[1])]
    ends = [(run[0][0] * INTERVAL_MS, run[-1][0] * INTERVAL_MS) for run in runs if run[0][1] == "late"]
    late = [range(first_ms, last_ms + 1, INTERVAL_MS) for first_ms, last_ms in ends]
    begun = [range(time_ms, time_ms + 1) for time_ms in times_of(stages, "begun")]
    due = times_of(stages, "late", "begun", "due")
    return UnfinishedBatches(
        generated_ms=len(stages) * INTERVAL_MS,
        completed_ms=max(times_of(stages, "complete", "failed"), default=-1),
        first_due_ms=min(due, default=None),
        late=tuple(sorted([*late, *begun], key=lambda times: times.start)),
        # Those that have completed meanwhile, too.
        begun=frozenset(times_of(stages, "begun", "complete")),
        pending=frozenset(times_of(stages, "pending")),
        dropped=frozenset(times_of(stages, "dropped")),
        failed=frozenset(times_of(stages, "failed")),
    )


stages_of_batches = st.lists(st.sampled_from(STAGES), max_size=20)


@given(stages_of_batches)
def test_checkpoint_has_each_unfinished_batch_once(stages: list[str]) -> None:
    batches = batches_of(stages)
    never_begun = [time_ms for times in batches.never_begun for time_ms in times]
    assert set(never_begun) == times_of(stages, "late")
    assert batches.to_run == sorted(times_of(stages, "begun", "pending", "failed"))
    assert len(never_begun) == len({*never_begun} - {*batches.to_run})


@given(stages_of_batches, st.data())
def test_batch_that_is_being_submitted_counts_once(stages: list[str], data: st.DataObject) -> None:
    due = times_of(stages, "late", "begun")
    moving = data.draw(st.sampled_from(sorted(due))) if due else None
    before = batches_of(stages)
    pending = before.pending if moving is None else before.pending | {moving}
    meanwhile = evolve(before, pending=pending)
    assert (meanwhile.to_run, meanwhile.never_begun) == (before.to_run, before.never_begun)


@given(stages_of_batches)
def test_data_of_waiting_batches_is_needed_and_that_of_failed_ones_apart(stages: list[str]) -> None:
    batches = batches_of(stages)
    waiting = times_of(stages, "late", "begun", "due", "pending", "dropped")
    assert batches.oldest_ms == min([batches.completed_ms, *waiting])
    done_ms = batches.done_ms(INTERVAL_MS)
    done = {time_ms for time_ms in times_of(stages, *STAGES) if time_ms <= done_ms}
    assert done <= times_of(stages, "complete", "failed")
    # It is the youngest such batch.
    assert done_ms == batches.completed_ms or done_ms + INTERVAL_MS in waiting


def test_new_run_needs_nothing() -> None:
    batches = UnfinishedBatches(generated_ms=0)
    assert (batches.to_run, batches.never_begun, batches.oldest_ms, batches.done_ms(INTERVAL_MS)) == ([], [], -1, -1)
