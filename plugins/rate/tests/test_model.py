"""`model` gives valid rates for any input and does what its README promises."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import penstock_rate
from penstock_rate import ModelOptions, ModelRateEstimator

START = 1_000_000


def model(interval: int = 1000, **options: Any) -> ModelRateEstimator:
    return ModelRateEstimator(ModelOptions(**options), interval)


class Loop:
    """A workload without chance: batches of what the rate let in, or of the input when that is less. They may queue."""

    def __init__(self, estimator: ModelRateEstimator, record_ms: float = 0.1, fixed_ms: float = 50) -> None:
        self.estimator = estimator
        self.record_ms = record_ms
        self.fixed_ms = fixed_ms
        self.rate = estimator.initial_rate
        self.now = START
        self.free = 0

    def batch(self, at_most: float = math.inf, times: float = 1.0, waited: int = 0) -> float:
        records = max(int(min(self.rate, at_most)), 1)
        took = round((self.fixed_ms + self.record_ms * records) * times)
        self.now += 1000
        start = max(self.now + waited, self.free)
        self.free = start + took
        self.rate = self.estimator.compute(self.free, records, took, start - self.now) or self.rate
        return self.rate

    def settle(self, batches: int = 40) -> Loop:
        for _ in range(batches):
            self.batch()
        return self


def test_plugin_offers_it_with_these_defaults() -> None:
    (spec,) = [spec for spec in penstock_rate.rate_estimators() if spec.name == "model"]
    assert spec.options is ModelOptions
    assert isinstance(spec.factory(ModelOptions(), 1000), ModelRateEstimator)
    assert ModelOptions() == ModelOptions(share=None, initial_rate=None, min_rate=0.001)


@pytest.mark.parametrize(
    ("option", "value"),
    [("share", 0.0), ("share", 1.1), ("share", math.nan), ("initial_rate", 0.0), ("min_rate", 0.0), ("min_rate", -1.0)],
)
def test_impossible_options_are_refused(option: str, value: float) -> None:
    with pytest.raises(ValueError, match=option):
        ModelOptions(**{option: value})


def test_initial_rate_is_low() -> None:
    assert model().initial_rate == 2
    assert model(100).initial_rate == 20
    assert model(initial_rate=70).initial_rate == 70
    assert model(initial_rate=70, min_rate=80).initial_rate == 80


def test_rate_grows_in_bounded_steps_while_batches_are_short_then_settles_at_the_share() -> None:
    loop = Loop(model(share=0.85))
    rates = [loop.rate] + [loop.batch() for _ in range(30)]
    steps = [after / before for before, after in pairwise(rates) if after < 8000 * 0.9]
    assert len(steps) >= 4
    assert all(1.9 <= step <= 10 for step in steps)
    assert rates[-1] == pytest.approx(8000, rel=0.02)
    assert max(rates) < 8500


@pytest.mark.parametrize("share", [0.5, 0.85, 0.95])
def test_share_is_kept(share: float) -> None:
    loop = Loop(model(share=share)).settle()
    assert 50 + loop.rate * 0.1 == pytest.approx(share * 1000, rel=0.02)


def aim_ms(estimator: ModelRateEstimator) -> float:
    """The duration that it said it aims at."""
    return float(estimator.reason.partition("aims at ")[2].partition(" ms")[0])


@pytest.mark.parametrize(
    ("excess", "least", "most"), [(0.0, 950, 950), (0.02, 940, 950), (0.08, 905, 935), (0.3, 850, 870)]
)
def test_default_share_leaves_headroom_for_batches_that_take_longer(excess: float, least: int, most: int) -> None:
    loop = Loop(model()).settle()
    for number in range(60):
        loop.batch(times=1 if number % 3 else 1 + excess)
    assert least <= aim_ms(loop.estimator) <= most


def test_headroom_shrinks_slowly() -> None:
    loop = Loop(model())
    aims = []
    for _ in range(60):
        loop.batch()
        aims.append(aim_ms(loop.estimator))
    assert (aims[0], aims[-1]) == (850, 950)
    assert all(0 <= after - before < 10 for before, after in pairwise(aims))


def test_permits_that_the_input_does_not_use_are_headroom() -> None:
    loop = Loop(model()).settle(60)
    settled = loop.rate
    assert aim_ms(loop.estimator) == 950
    loop.batch(at_most=0.88 * settled)
    assert 850 < aim_ms(loop.estimator) < 900
    loop.batch(at_most=100)
    assert loop.rate == pytest.approx(8000, rel=0.02)
    assert loop.settle(60).rate == pytest.approx(settled, rel=0.01)


def test_blocks_that_fall_into_one_batch_or_the_next_take_little_headroom() -> None:
    loop = Loop(model()).settle()
    for number in range(60):
        loop.rate *= (1.06, 1.06, 0.88)[number % 3]
        loop.batch()
    assert 900 <= aim_ms(loop.estimator) <= 935


def test_input_that_is_always_a_little_short_takes_little_headroom() -> None:
    loop = Loop(model()).settle(60)
    for _ in range(60):
        loop.batch(at_most=0.97 * loop.rate)
    assert 920 <= aim_ms(loop.estimator) <= 950


def test_outlier_takes_no_headroom() -> None:
    loop = Loop(model()).settle()
    before = loop.estimator.state.excess
    loop.batch(times=5)
    assert loop.estimator.state.cost.outliers == 1
    assert loop.estimator.state.excess == before


def test_absurd_record_count_does_not_raise_the_rate() -> None:
    loop = Loop(model(share=0.85)).settle()
    settled = loop.rate
    loop.now += 1000
    loop.rate = loop.estimator.compute(loop.now + 850, 10**12, 850, 0) or 0
    loop.free = loop.now + 850
    rates = [loop.rate] + [loop.batch() for _ in range(40)]
    assert max(rates) < 2 * settled
    assert loop.rate == pytest.approx(settled, rel=0.05)


def test_absurd_first_record_count_does_not_raise_the_rate() -> None:
    loop = Loop(model())
    loop.now += 1000
    loop.rate = loop.estimator.compute(loop.now + 900, 10**12, 900, 0) or 0
    assert loop.rate <= 20


def test_configured_initial_rate_is_used() -> None:
    chosen, own = Loop(model()), Loop(model(initial_rate=4000))
    chosen.estimator.begin_with(4000)
    chosen.rate = 4000
    # A source that is idle at first leaves it where it is.
    for _ in range(10):
        assert chosen.batch(at_most=100) == own.batch(at_most=100) >= 4000
    low = model(min_rate=80)
    low.begin_with(70)
    assert low.state.rate == 80


def test_part_of_the_time_after_a_high_fixed_cost_is_used() -> None:
    loop = Loop(model(share=0.85), fixed_ms=900).settle(80)
    assert 900 + loop.rate * 0.1 == pytest.approx(976.5, rel=0.01)


def test_rate_recovers_from_a_fixed_cost_above_the_interval() -> None:
    loop = Loop(model(share=0.85)).settle()
    settled = loop.rate
    loop.fixed_ms = 1200
    loop.settle(20)
    assert 0 < loop.rate < settled * 0.2
    loop.fixed_ms = 50
    loop.settle(60)
    assert loop.rate == pytest.approx(settled, rel=0.05)


def test_rate_below_one_record_per_second_works() -> None:
    loop = Loop(model(), record_ms=4000)
    loop.settle(60)
    assert 0.001 <= loop.rate < 0.3
    # Each batch has far more records than its rate admits; the maximum lets the headroom shrink again.
    assert loop.estimator.state.excess == 0.2


@pytest.mark.parametrize("batch", [(0, 0, 10, 0), (0, 10, 0, 0), (0, -1, 10, 0), (0, 10, -1, 0), (-1, 10, 10, 0)])
def test_batch_without_information_changes_nothing(batch: tuple[int, int, int, int]) -> None:
    loop, other = Loop(model()).settle(), Loop(model()).settle()
    after, records, took, waited = batch
    time = loop.now + 10_000 + after
    assert (loop.estimator.state.time or 0) < time
    if batch[1] > 0 and batch[2] > 0:
        time = loop.estimator.state.time or 0
    assert loop.estimator.compute(time, records, took, waited) is None
    assert loop.estimator.state == other.estimator.state
    assert loop.batch() == other.batch()


def test_rate_stays_when_the_input_is_the_limit() -> None:
    loop = Loop(model(share=0.85)).settle()
    settled = loop.rate
    for _ in range(200):
        assert loop.batch(at_most=100) >= settled * 0.99
    assert loop.rate < 2.1 * settled
    assert loop.batch() < 1.1 * settled


def test_queue_is_drained_by_a_lower_target() -> None:
    loop = Loop(model(share=0.85)).settle()
    settled = loop.rate
    lower = loop.batch(waited=1500)
    assert settled * 0.1 < lower < settled * 0.8
    assert "late" in loop.estimator.reason
    loop.settle(5)
    assert loop.rate == pytest.approx(settled, rel=0.05)


def test_clock_jump_is_tolerated() -> None:
    loop = Loop(model(share=0.85)).settle()
    settled = loop.rate
    loop.now += 86_400_000
    loop.batch()
    assert loop.rate == pytest.approx(settled, rel=0.05)
    loop.batch(waited=86_400_000)
    loop.now += 86_400_000
    loop.settle(10)
    assert loop.rate == pytest.approx(settled, rel=0.05)
    loop.now, loop.free = START, 0
    state = pickle.dumps(loop.estimator.state)
    loop.settle(10)
    assert pickle.dumps(loop.estimator.state) == state


def test_capacity_proven_before_a_cost_change_is_forgotten() -> None:
    loop = Loop(model()).settle()
    before = loop.estimator.state.proven
    loop.record_ms *= 8
    for _ in range(2):
        loop.batch()
    assert "the cost has changed" in loop.estimator.reason
    assert loop.estimator.state.proven < before / 4


def test_batch_is_a_fact_of_which_a_part_stays_however_late_the_next_one_is() -> None:
    estimator = model(initial_rate=1400)
    for number in range(1, 41):
        records = 700 if number % 2 else 1400
        estimator.compute(START + 1000 * number, records, 800 + records // 10, 0)
    rate = estimator.compute(START + 141_000, 1400, 940, 100_000)
    # A tenth of what 800 ms leave, in proportion to the batch: more than the line says of the rest.
    assert rate == pytest.approx(0.25 * 1400 * 815 / 940, rel=0.05)


def test_batch_that_began_before_its_time_did_not_wait() -> None:
    loop, other = Loop(model()).settle(), Loop(model()).settle()
    # It is late by what it took beyond the interval.
    batch = (loop.now + 2500, 8000, 1500)
    assert loop.estimator.compute(*batch, -5000) == other.estimator.compute(*batch, 0)
    assert loop.estimator.state == other.estimator.state


def test_rate_has_a_finite_maximum() -> None:
    estimator = model()
    estimator.begin_with(1e300)
    assert [estimator.compute(time, 10**15, 1, 0) for time in (1000, 2000, 3000)] == [1e15] * 3


def test_reason_names_the_cost_and_the_decision() -> None:
    loop = Loop(model(share=0.85))
    assert loop.estimator.reason == "no batch yet"
    loop.batch()
    assert loop.estimator.reason == "0 ms and 25 ms a record: aims at 850 ms, limited to a safe step"
    loop.settle()
    loop.batch(at_most=10)
    assert loop.estimator.reason.endswith("a record: aims at 850 ms; the input was the limit")


Batch = st.tuples(
    st.integers(-(10**15), 10**15), st.integers(-1, 10**12), st.integers(-1, 10**9), st.integers(-(10**9), 10**9)
)
Growing = st.tuples(st.integers(1, 10**6), st.integers(1, 10**12), st.integers(1, 86_400_000), st.integers(0, 10**9))


@settings(derandomize=True, deadline=None)
@given(st.lists(Batch, max_size=40), st.integers(1, 86_400_000))
def test_any_input_gives_none_or_a_valid_rate(batches: list[Any], interval: int) -> None:
    estimator = model(interval)
    for batch in batches:
        rate = estimator.compute(*batch)
        assert rate is None or 0.001 <= rate <= 1e15


@settings(derandomize=True, deadline=None)
@given(st.lists(Growing, max_size=60), st.sampled_from([1, 1000, 86_400_000]), st.sampled_from([0.001, 100.0]))
def test_every_usable_batch_gives_a_rate(batches: list[Any], interval: int, floor: float) -> None:
    estimator, now = model(interval, min_rate=floor), 0
    for later, *batch in batches:
        now += later
        rate = estimator.compute(now, *batch)
        assert rate is not None
        assert floor <= rate <= 1e15
        assert estimator.reason
