"""``BatchCost`` learns the cost of a batch despite noise and outliers, and again after a change."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings, strategies as st

from penstock_rate.batch_cost import BatchCost


def taught(*batches: tuple[int, int]) -> BatchCost:
    cost = BatchCost()
    for records, took_ms in batches:
        cost, _changed = cost.learn(records, took_ms)
    return cost


def learned(cost: BatchCost, *took_ms: int) -> tuple[BatchCost, list[bool]]:
    """The cost after batches of 5,000 records, and after which of them it had changed."""
    changes = []
    for duration_ms in took_ms:
        cost, changed = cost.learn(5000, duration_ms)
        changes.append(changed)
    return cost, changes


def test_first_batch_is_attributed_to_its_records() -> None:
    cost = taught((100, 500))
    assert (cost.fixed_ms, cost.record_ms) == (0, 5)


def test_batches_of_different_sizes_reveal_the_fixed_time() -> None:
    cost = taught(*[(n, 200 + n // 10) for n in (10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120)])
    assert cost.fixed_ms == pytest.approx(200, rel=0.05)
    assert cost.record_ms == pytest.approx(0.1, rel=0.05)


def test_batches_of_one_size_keep_the_known_fixed_time() -> None:
    cost = taught(*[(n, 200 + n // 10) for n in (10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120)])
    chance = random.Random(7)
    for _ in range(500):
        cost, _changed = cost.learn(5000, round(700 * chance.lognormvariate(0, 0.1)))
    assert cost.predict_ms(5000) == pytest.approx(700, rel=0.1)
    assert 0 <= cost.fixed_ms < 600


@pytest.mark.parametrize("took_ms", [7000, 70])
def test_single_outlier_hardly_counts(took_ms: int) -> None:
    cost = taught(*[(5000, 700)] * 20)
    cost, changed = cost.learn(5000, took_ms)
    assert not changed
    assert cost.predict_ms(5000) == pytest.approx(700, rel=0.05)
    assert cost.outliers == (1 if took_ms > 700 else -1)
    cost, changed = cost.learn(5000, 700)
    assert not changed
    assert cost.outliers == 0


@pytest.mark.parametrize("took_ms", [1400, 350])
def test_two_outliers_on_one_side_are_a_change(took_ms: int) -> None:
    cost, changes = learned(taught(*[(5000, 700)] * 50), took_ms, took_ms, took_ms)
    assert changes == [False, True, False]
    assert cost.predict_ms(5000) == pytest.approx(took_ms, rel=0.15)


def test_outliers_on_both_sides_are_no_change() -> None:
    _cost, changes = learned(taught(*[(5000, 700)] * 20), 1400, 350, 1400, 350)
    assert changes == [False] * 4


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**12), st.integers(1, 10**9)), min_size=1, max_size=40))
def test_predictions_are_positive_and_finite(batches: list[tuple[int, int]]) -> None:
    cost = taught(*batches)
    assert 0 <= cost.fixed_ms < math.inf
    assert 0 < cost.record_ms < math.inf
