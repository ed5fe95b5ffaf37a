"""`pid` gives the numbers of Spark's PIDRateEstimatorSuite and has Spark's options."""

from __future__ import annotations

import random
from typing import Any

import pytest
from attrs import asdict
from hypothesis import given, settings, strategies as st

import penstock_rate
from penstock_rate import PIDOptions, PIDRateEstimator


def pid(
    interval: int = 20, proportional: float = 1, integral: float = 0, derived: float = 0, floor: float = 10
) -> PIDRateEstimator:
    return PIDRateEstimator(PIDOptions(proportional, integral, derived, floor), interval)


def test_plugin_offers_it_with_sparks_options_and_defaults() -> None:
    (spec,) = [spec for spec in penstock_rate.rate_estimators() if spec.name == "pid"]
    assert spec.options is PIDOptions
    assert isinstance(spec.factory(PIDOptions(), 20), PIDRateEstimator)
    assert asdict(PIDOptions()) == {"proportional": 1.0, "integral": 0.2, "derived": 0.0, "minRate": 100.0}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("proportional", -1.0),
        ("integral", -1.0),
        ("derived", -1.0),
        ("minRate", 0.0),
        ("minRate", -10.0),
        ("minRate", float("nan")),
        ("proportional", float("inf")),
    ],
)
def test_impossible_options_are_refused(option: str, value: float) -> None:
    with pytest.raises(ValueError, match=option):
        PIDOptions(**{option: value})


def test_first_batch_gives_none_and_the_second_a_rate() -> None:
    estimator = pid()
    assert estimator.compute(0, 10, 10, 0) is None
    assert estimator.compute(10, 10, 10, 0) == 1000


@pytest.mark.parametrize(
    "batch", [(10, 10, 10, 0), (9, 10, 10, 0), (20, 0, 10, 0), (20, -10, 10, 0), (20, 10, 0, 0), (20, 10, -10, 0)]
)
def test_batch_without_information_changes_nothing(batch: tuple[int, int, int, int]) -> None:
    estimator, other = pid(), pid()
    for each in (estimator, other):
        each.compute(0, 10, 10, 0)
        each.compute(10, 10, 10, 0)
    assert estimator.compute(*batch) is None
    assert estimator.state == other.state
    assert estimator.compute(30, 7, 11, 3) == other.compute(30, 7, 11, 3)


def test_initial_rate_is_none() -> None:
    assert pid(floor=100).initial_rate is None


def test_estimate_is_at_least_min_rate() -> None:
    estimator = pid(integral=1, floor=5)
    assert [estimator.compute(20 * x, 1, 20, 100) for x in range(50)] == [None, *[5] * 49]
    assert "minRate" in estimator.reason


@pytest.mark.parametrize("up", [True, False])
def test_without_delay_it_is_the_rate_of_processing(up: bool) -> None:
    estimator = pid(integral=1)
    records = [20 * (x + 1) for x in range(50)]
    if not up:
        records.reverse()
    rates = [estimator.compute(20 * x, n, 20, 0) for x, n in enumerate(records)]
    assert rates == [None, *[n / 20 * 1000 for n in records[1:]]]


def test_with_delay_it_is_below_the_rate_of_processing() -> None:
    drawn = random.Random(7)
    estimator = pid(integral=0.01)
    for x in range(50):
        records, delay = drawn.randrange(1000), drawn.randrange(19)
        rate = estimator.compute(20 * x, records, 20, delay)
        if rate is not None and rate > 10 and delay > 0:
            assert rate < records / 20 * 1000


def test_integral_and_derivative_match_a_hand_calculation() -> None:
    estimator = pid(interval=1000, proportional=0.5, integral=0.2, derived=0.1, floor=1)
    assert estimator.compute(1000, 1000, 1000, 0) is None
    # error 1000 - 500 = 500, waiting 400 * 500 / 1000 = 200, change 500 / 2 s = 250
    assert estimator.compute(3000, 500, 1000, 400) == pytest.approx(1000 - 0.5 * 500 - 0.2 * 200 - 0.1 * 250)


Batch = st.tuples(
    st.integers(-(10**15), 10**15), st.integers(-10, 10**12), st.integers(-10, 10**9), st.integers(-10, 10**9)
)


@settings(derandomize=True, deadline=None)
@given(st.lists(Batch, max_size=30), st.integers(1, 86_400_000))
def test_any_input_gives_none_or_at_least_min_rate(batches: list[Any], interval: int) -> None:
    estimator = PIDRateEstimator(PIDOptions(), interval)
    for batch in batches:
        rate = estimator.compute(*batch)
        assert rate is None or 100 <= rate < float("inf")


def test_rate_raised_to_min_rate_is_the_base_of_the_next() -> None:
    estimator = pid(1000, proportional=0.5, floor=100)
    assert estimator.compute(1000, 10, 1000, 0) is None
    assert estimator.compute(2000, 10, 1000, 0) == 100
    assert estimator.compute(3000, 500, 1000, 0) == 300
