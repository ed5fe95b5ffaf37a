"""``DueBatches``: the order of due batches, late ones among them, and the wait until they are generated."""

from __future__ import annotations

import time

from tests.helpers import run_in_background

from penstock.schedule.due_batches import DueBatches


def with_late() -> DueBatches:
    due = DueBatches(100)
    due.add_late([range(100, 101), range(200, 301, 100)], until_ms=300, skippable_after_ms=100)
    due.add(400)
    return due


def test_late_batches_come_first() -> None:
    due = with_late()
    assert (due.first, due.late) == (100, [range(100, 101), range(200, 301, 100)])


def test_limit_of_pending_batches_holds_for_late_batches_only() -> None:
    due = with_late()
    limits, late = [], []
    while due.first is not None:
        limits.append(due.max_pending)
        late.append(due.late)
        due.first_generated()
    assert limits == [10, 10, 10, 0]
    assert late == [[range(100, 101), range(200, 301, 100)], [range(200, 301, 100)], [range(300, 301, 100)], []]
    assert due.max_pending == 0


def test_only_skippable_late_batches_may_be_skipped() -> None:
    due = with_late()
    assert not due.is_first_skippable
    due.first_generated()
    assert due.is_first_skippable
    assert due.skip_first() == 200
    assert due.generated_ms == 100


def test_a_day_of_late_batches_is_one_range() -> None:
    due = DueBatches(1000)
    due.add_late([range(1000, 86_401_000, 1000)], until_ms=86_400_000)
    due.first_generated()
    assert due.late == [range(2000, 86_401_000, 1000)]
    due.add(86_401_000)
    assert len(due.late) == 1


def test_skipped_times_are_known_until_they_are_forgotten() -> None:
    due = DueBatches(100)
    due.begin(200)
    for time_ms in (300, 400, 700, 800, 1000):
        due.add(time_ms)
    assert due.skipped == [range(500, 700, 100), range(900, 1000, 100)]
    due.forget_skipped(600)
    assert due.skipped == [range(500, 700, 100), range(900, 1000, 100)]
    due.forget_skipped(700)
    assert due.skipped == [range(900, 1000, 100)]


def test_youngest_generated_batch_does_not_go_back() -> None:
    due = with_late()
    due.generated_ms = 300
    due.first_generated()
    assert due.generated_ms == 300


def test_batches_are_generated_when_none_is_due_any_more() -> None:
    due = with_late()
    due.generated_ms = 400
    assert not due.are_generated(400)
    waiting = run_in_background(lambda: due.await_generated(400, time.monotonic() + 30))
    for _ in range(4):
        due.first_generated()
    assert waiting.result(timeout=30)


def test_abandon_ends_the_wait() -> None:
    due = with_late()
    waiting = run_in_background(lambda: due.await_generated(400, time.monotonic() + 30))
    due.abandon()
    assert waiting.result(timeout=10) is False
    assert due.is_abandoned


def test_wait_returns_at_its_deadline() -> None:
    assert with_late().await_generated(400, time.monotonic()) is False
