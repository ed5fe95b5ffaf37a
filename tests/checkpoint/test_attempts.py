"""``Attempts``: no batch is begun twice under one number, whenever a run ends."""

from __future__ import annotations

from attrs import evolve
from tests.checkpoint.test_checkpoint_store import FIRST

from penstock.checkpoint.batch_attempts import Attempts


def test_a_batch_of_a_first_run_is_begun_once() -> None:
    assert Attempts().of(1000) == 1


def test_a_batch_that_was_not_complete_is_begun_once_more() -> None:
    attempts = Attempts.behind(evolve(FIRST, last_time_ms=5000, pending={3000: 2, 5000: 1}), 9000)
    assert [attempts.of(time_ms) for time_ms in (3000, 5000)] == [3, 2]


def test_a_batch_of_which_no_checkpoint_knew_may_have_been_begun() -> None:
    # Its jobs ran, and the driver died before the checkpoint was written that has it.
    found = evolve(FIRST, last_time_ms=5000)
    attempts = Attempts.behind(found, 9000)
    assert [attempts.of(time_ms) for time_ms in (6000, 9000, 10_000)] == [2, 2, 1]
    # And this one dies before it has written another than its first.
    again = Attempts.behind(evolve(found, begun=attempts.begun), 12_000)
    assert [again.of(time_ms) for time_ms in (6000, 12_000, 13_000)] == [3, 3, 1]
