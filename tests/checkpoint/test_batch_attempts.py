"""The number of runs that have begun a batch is never too low, whenever a run ends."""

from __future__ import annotations

from attrs import evolve
from tests.checkpoint.samples import FIRST

from penstock.checkpoint.checkpoint_format import LateBatches


def test_every_batch_of_a_first_run_has_one_attempt() -> None:
    assert FIRST.attempts(1000) == 1


def test_a_pending_batch_has_one_more_attempt_after_recovery() -> None:
    found = evolve(FIRST, last_time_ms=5000, pending={3000: 2, 5000: 1})
    first = found.recovered(written_ms=9000)
    assert [first.attempts(time_ms) for time_ms in (3000, 5000)] == [3, 2]


def test_a_batch_missing_in_the_checkpoint_counts_as_begun_if_it_was_due() -> None:
    # Its jobs may have run before the driver died, although no checkpoint mentions it.
    second = evolve(FIRST, last_time_ms=5000).recovered(written_ms=9000)
    assert [second.attempts(time_ms) for time_ms in (6000, 9000, 10_000)] == [2, 2, 1]
    # The second run dies before its second checkpoint.
    third = second.recovered(written_ms=12_000)
    assert [third.attempts(time_ms) for time_ms in (6000, 12_000, 13_000)] == [3, 3, 1]


def test_every_later_batch_may_have_begun_if_the_clock_was_set_back() -> None:
    for now_ms in (2000, 5000):
        first = evolve(FIRST, last_time_ms=5000).recovered(written_ms=now_ms)
        assert [first.attempts(time_ms) for time_ms in (5000, 6000, 9_999_000)] == [1, 2, 2]


def test_late_batches_of_an_earlier_run_have_one_more_attempt() -> None:
    late = [LateBatches(2000, 4000, 1), LateBatches(5000, 8000, 3)]
    first = evolve(FIRST, last_time_ms=8000, pending={1000: 2}, late=late).recovered(written_ms=9000)
    assert [first.attempts(time_ms) for time_ms in (1000, 2000, 4000, 5000, 8000, 9000)] == [3, 2, 2, 4, 4, 2]
