"""``RestartBudget``: so many failures in a window are made good."""

import random

import pytest

from penstock.track.restart_budget import RestartBudget


def test_so_many_failures_are_made_good_and_the_next_is_too_many() -> None:
    budget = RestartBudget(3, 1000)
    assert [budget.note_failure(now) for now in (0, 10, 20, 30, 40)] == [True, True, True, False, False]


def test_without_restarts_the_first_failure_is_too_many() -> None:
    assert not RestartBudget(0, 1000).note_failure(5)


def test_a_failure_counts_for_the_length_of_the_window() -> None:
    budget = RestartBudget(1, 1000)
    assert budget.note_failure(0)
    assert budget.note_failure(1000)
    assert not budget.note_failure(1999)
    assert budget.is_spent(1999)
    assert budget.is_spent(1999.9)
    assert not budget.is_spent(2000)


def test_it_is_not_spent_before_anything_failed() -> None:
    assert not RestartBudget(0, 1000).is_spent(0)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_spent_when_more_than_so_many_are_in_the_window(seed: int) -> None:
    rng = random.Random(seed)
    most, window = rng.randint(0, 5), rng.randint(1, 500)
    budget, failed, now = RestartBudget(most, window), list[int](), 0
    for _ in range(300):
        now += rng.randint(0, 200)
        failed.append(now)
        assert budget.note_failure(now) == (sum(now - at < window for at in failed) <= most)
