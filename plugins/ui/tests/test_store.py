"""The metrics store: Spark's counts, from any events."""

from __future__ import annotations

import random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st
from plugins.ui.tests.conftest import T, batch_events, state_of

from penstock import (
    BatchCompleted,
    BatchSubmitted,
    OutputOperationCompleted,
    OutputOperationInfo,
    ReceiverError,
    ReceiverInfo,
    ReceiverStarted,
    SourceStatus,
    StopProgress,
    StreamingStarted,
)
from penstock_testing import FakeListenerContext, listener_events
from penstock_ui.monitor import describe
from penstock_ui.own_events import CountsCarried, JobsRun, RateChanged, Sampled
from penstock_ui.snapshot import BatchStatus, RateChange, Storage, Totals
from penstock_ui.spark_jobs import JobInfo
from penstock_ui.store import Limits, MetricsStore

TWO = {0: 300, 1: 300}


def job(number: int, batch: int = 1, operation: int = 0) -> JobInfo:
    return JobInfo(number, T + batch * 1000, operation, "SUCCEEDED", T, T + 9, 1, 1)


def test_batch_is_counted_as_spark_counts_it() -> None:
    submitted, started, *operations, completed = batch_events(1, TWO)
    store = MetricsStore()

    store.apply(submitted)
    state = store.snapshot()
    assert (len(state.waiting), len(state.running), state.totals.received_records) == (1, 0, 0)

    store.apply(started)
    state = store.snapshot()
    assert (len(state.waiting), len(state.running), state.totals.received_records) == (0, 1, 600)
    assert state.totals.processed_records == 0

    for event in operations:
        store.apply(event)
    store.apply(JobsRun((job(0), job(1))))
    assert store.snapshot().running[0].operations[0].jobs == (job(0), job(1))  # type: ignore[index]

    store.apply(completed)
    state = store.snapshot()
    assert (len(state.waiting), len(state.running), len(state.completed)) == (0, 0, 1)
    assert state.totals == Totals(1, 0, 600, 600)
    assert [stream.records for stream in state.streams] == [300, 300]
    batch = state.completed[0]
    assert batch.operations[0].jobs == (job(0), job(1))  # type: ignore[index]
    assert (batch.scheduling_delay_ms, batch.processing_delay_ms, batch.total_delay_ms) == (10, 200, 210)
    assert batch.generation_delay_ms == 5
    assert state.input_rate(batch) == 600
    assert state.input_rate(batch, 1) == 300
    assert state.input_rate(batch, 7) == 0


def test_number_of_retained_batches_is_limited_and_all_are_counted() -> None:
    state = state_of([event for n in range(30) for event in batch_events(n)], Limits(batches=20))
    assert [batch.time_ms for batch in state.completed] == [T + n * 1000 for n in range(10, 30)]
    assert state.totals.completed_batches == 30


def test_old_batches_lose_their_details_before_the_memory_grows() -> None:
    inputs = dict.fromkeys(range(99), 1)
    state = state_of([event for n in range(30) for event in batch_events(n, inputs)], Limits(details=1000))
    detailed = [batch for batch in state.completed if batch.inputs is not None]
    assert len(state.completed) == 30
    assert detailed == list(state.completed[-10:])
    assert all(batch.records == 99 and batch.num_operations == 1 for batch in state.completed)


def test_jobs_that_come_before_or_after_their_batch_leave_nothing_behind() -> None:
    store = MetricsStore(Limits(batches=10))
    for number in range(100):
        store.apply(JobsRun((job(number, batch=number), JobInfo(7))))
        for event in batch_events(number):
            store.apply(event)
        store.apply(JobsRun((job(200 + number, batch=number), job(300, batch=number, operation=5))))
        store.apply(JobsRun((job(number, batch=number - 50),)))
    state = store.snapshot()
    assert [[each.job_id for each in batch.operations[0].jobs] for batch in state.completed] == [  # type: ignore[index]
        [n, 200 + n] for n in range(90, 100)
    ]
    assert all(batch.num_operations == 1 for batch in state.completed)
    # No public name for a leak: jobs without a batch.
    assert len(store._early_jobs) <= 10


def test_jobs_of_a_batch_are_bounded_and_count_as_details() -> None:
    store = MetricsStore(Limits(details=2500))
    for number in (1, 2, 3):
        for event in batch_events(number):
            store.apply(event)
        store.apply(JobsRun(tuple(job(n, batch=number) for n in range(1500))))
    dropped, *kept = store.snapshot().completed
    assert dropped.operations is None
    for batch in kept:
        assert [each.job_id for each in batch.operations[0].jobs] == list(range(500, 1500))  # type: ignore[index]


def test_a_job_seen_before_the_event_of_its_output_operation_is_kept() -> None:
    submitted, started, began, ended, completed = batch_events(1)
    state = state_of([submitted, started, JobsRun((job(3),)), began, ended, completed])
    (operation,) = state.completed[0].operations or ()
    assert (operation.name, operation.jobs) == ("op0", (job(3),))


@pytest.mark.parametrize("missing", range(4))
def test_batch_whose_event_is_missing_is_completed_all_the_same(missing: int) -> None:
    events = batch_events(1, TWO)
    del events[missing]
    state = state_of(events)
    assert [batch.status for batch in state.batches] == [BatchStatus.COMPLETED]
    assert state.totals == Totals(1, 0, 600, 600)
    assert state.completed[0].num_succeeded == 1


def test_repeated_and_late_events_of_a_batch_change_nothing() -> None:
    events = batch_events(1, TWO)
    once, twice = state_of(events), state_of([*events, *events])
    assert twice.totals == once.totals
    assert twice.batches == once.batches
    assert twice.streams == once.streams


def test_output_operation_of_an_unknown_batch_is_ignored() -> None:
    assert state_of([OutputOperationCompleted(OutputOperationInfo(5, 0, "op", "op"))]).batches == ()


def test_batches_that_never_end_are_forgotten() -> None:
    state = state_of([batch_events(n)[0] for n in range(50)], Limits(unfinished=5))
    assert [batch.time_ms for batch in state.waiting] == [T + n * 1000 for n in range(45, 50)]


def test_batches_that_end_out_of_order_are_shown_by_batch_time() -> None:
    state = state_of([*batch_events(2), *batch_events(1), *batch_events(3)])
    assert [batch.time_ms for batch in state.batches] == [T + 1000, T + 2000, T + 3000]


def test_failed_batch_shows_its_first_failure_with_the_end_of_a_long_traceback() -> None:
    state = state_of(batch_events(1, failure="x" * 50_000 + "ValueError: bad", operations=2))
    (batch,) = state.completed
    assert (batch.num_failed, batch.num_succeeded, batch.num_active) == (2, 0, 0)
    assert state.totals.failed_batches == 1
    assert batch.first_failure is not None
    assert batch.first_failure.endswith("ValueError: bad")
    assert len(batch.first_failure) < 11_000


def rerun(number: int, operation: int, failure: str | None) -> OutputOperationCompleted:
    """The end of an output operation that has run again."""
    time = T + number * 1000
    return OutputOperationCompleted(OutputOperationInfo(time, operation, "op", "op", T + 90_000, T + 91_000, failure))


@pytest.mark.parametrize("limits", [None, Limits(details=1)], ids=["with details", "without"])
def test_failed_batch_awaits_its_rerun_until_all_outputs_have_succeeded(limits: Limits | None) -> None:
    events = [*batch_events(1, failure="down", operations=2, awaits_rerun=True), *batch_events(2)]
    seen = []
    for again in ([], [rerun(1, 0, "down")], [rerun(1, 0, None)], [rerun(1, 1, None)]):
        events += again
        state = state_of(events, limits)
        batch = state.completed[0]
        assert (batch.operations is None) == (limits is not None)
        seen.append((batch.awaits_rerun, batch.num_failed, batch.num_succeeded, batch.first_failure))
    assert seen == [(True, 2, 0, "down"), (True, 2, 0, "down"), (True, 1, 1, "down"), (False, 0, 2, None)]
    assert (state.totals.completed_batches, state.totals.failed_batches) == (2, 1)


def test_failed_batch_that_does_not_run_again_stays_failed() -> None:
    (batch,) = state_of([*batch_events(1, failure="down"), rerun(1, 0, None)]).completed
    assert (batch.awaits_rerun, batch.num_failed) == (False, 1)


def test_latency_is_from_the_earliest_arrival_to_the_end() -> None:
    events = [*batch_events(1, arrival=T + 115), *batch_events(2, {0: 0}), *batch_events(3, arrival=T + 10_000)]
    state = state_of(events)
    # The second has no arrival. The clock of the third's receiver is ahead.
    assert [batch.latency_ms for batch in state.completed] == [1100, None, 0]
    assert state.latency is not None
    assert (state.latency.count, state.latency.p50, state.latency.p99) == (2, 0, 1100)


def test_receivers_are_counted_and_shown() -> None:
    info = ReceiverInfo(0, "Receiver-0", True, "host", "1")
    failed = evolve(info, active=False, lastErrorTime=T, lastErrorMessage="lost")
    state = state_of(
        [describe(FakeListenerContext()), ReceiverStarted(info), ReceiverError(failed), ReceiverStarted(info)]
    )
    first, second = state.streams
    assert (first.starts, first.restarts, first.errors, first.is_active) == (2, 1, 1, True)
    assert (second.starts, second.restarts, second.receiver, second.is_active) == (0, 0, None, False)
    assert (len(state.receivers), state.active_receivers) == (2, 1)


def test_rate_changes_are_retained_with_their_reasons() -> None:
    changes = [RateChanged(T + n, 0, float(n), f"reason {n}") for n in range(10)]
    stream = state_of([*changes, RateChanged(T + 10, 0, None)], Limits(rate_changes=3)).stream(0)
    assert stream is not None
    assert stream.rate_limit is None
    assert stream.rate_changes == (
        RateChange(T + 8, 8.0, "reason 8"),
        RateChange(T + 9, 9.0, "reason 9"),
        RateChange(T + 10, None),
    )


def test_sample_shows_storage_and_receivers_and_ends_the_error_of_a_checkpoint(run: list[Any]) -> None:
    failing = state_of(run).storage
    assert (failing.checkpoint_failures, failing.checkpoint_error) == (3, "OSError: disk full")
    info = ReceiverInfo(1, "Receiver-1", False, "", "", lost_blocks=3, lost_records=40)
    state = state_of([*run, Sampled(T, Storage(backlog_bytes=5, checkpoint_ms=T), (), (info,))])
    assert state.storage == Storage(backlog_bytes=5, checkpoint_ms=T)
    assert state.streams[1].receiver == info
    behind = Sampled(T, Storage(), (), (), {1: SourceStatus(7), 99: SourceStatus(8)})
    receiver = state_of([*run, Sampled(T, Storage(), (), (info,)), behind]).streams[1].receiver
    assert receiver is not None
    assert receiver.source == SourceStatus(7)


def test_state_of_the_application_follows_start_and_stop() -> None:
    store = MetricsStore()
    assert not store.snapshot().is_live
    store.apply(StreamingStarted(T))
    assert (store.snapshot().is_live, store.snapshot().started_ms) == (True, T)
    store.apply(StopProgress(T + 5, "batches", 1))
    assert (store.snapshot().is_live, store.snapshot().stop_phase) == (True, "batches")
    store.apply(StopProgress(T + 6, "listeners", 0))
    assert not store.snapshot().is_live


def test_snapshot_is_made_again_only_after_an_event(run: list[Any]) -> None:
    store = MetricsStore()
    for event in run:
        store.apply(event)
    first = store.snapshot()
    assert store.snapshot(T) is first
    store.apply(StreamingStarted(T))
    assert store.snapshot() is not first


def test_snapshot_does_not_follow_what_another_listener_does_to_an_event() -> None:
    events = batch_events(1, TWO)
    state = state_of(events)
    events[-1].batchInfo.streamIdToInputInfo.clear()
    events[-1].batchInfo.outputOperationInfos.clear()
    assert state.completed[0].inputs is not None
    assert len(state.completed[0].inputs) == 2


def test_counts_of_a_new_file_continue_those_of_the_files_before() -> None:
    before = [event for n in range(5) for event in batch_events(n, TWO)] + batch_events(5, TWO)[:2]
    after = [*batch_events(5, TWO)[2:], *batch_events(6, TWO)]
    store = MetricsStore()
    for event in before:
        store.apply(event)
    carried = store.counts()
    assert isinstance(carried, CountsCarried)
    whole, continued, both = (
        state_of([*before, *after]),
        state_of([carried, *after]),
        state_of([*before, carried, *after]),
    )
    assert continued.totals == both.totals == whole.totals == Totals(7, 0, 4200, 4200)
    assert continued.streams == both.streams == whole.streams
    assert both.batches == whole.batches


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 30))
def test_any_events_in_any_order_keep_the_state_bounded_and_consistent(seed: int, shuffle: int, most: int) -> None:
    events: list[Any] = listener_events(random.Random(seed), batches=40)
    rng = random.Random(shuffle)
    chosen = [event for event in events if rng.random() < 0.8] + rng.choices(events, k=10)
    rng.shuffle(chosen)
    state = state_of(chosen, Limits(batches=most, unfinished=most, details=50))
    completions = {event.batchInfo.batchTime for event in chosen if isinstance(event, BatchCompleted)}
    assert len(state.completed) == min(most, len(completions))
    assert len(state.waiting) + len(state.running) <= most
    assert state.totals.completed_batches >= len(completions)
    details = [len(batch.inputs or ()) + len(batch.operations or ()) for batch in state.completed]
    assert sum(details) <= max(50, *details)
    assert len({batch.time_ms for batch in state.batches}) == len(state.batches)


def test_events_cost_the_same_however_many_batches_are_retained() -> None:
    store = MetricsStore(Limits(batches=10_000))
    for number in range(10_000):
        for event in batch_events(number):
            store.apply(event)
    # No event looks at the retained batches: those of one more batch create only that batch.
    before = {batch.time_ms: batch for batch in store.snapshot().batches}
    for event in batch_events(10_000):
        store.apply(event)
    after = {batch.time_ms: batch for batch in store.snapshot().batches}
    assert sum(after[time] is not before.get(time) for time in after) == 1


def test_submitted_batch_is_not_counted_twice() -> None:
    event = batch_events(1)[0]
    assert isinstance(event, BatchSubmitted)
    assert len(state_of([event, event]).waiting) == 1
