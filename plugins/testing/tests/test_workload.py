"""Simulated workloads: what a run does, by hand; that it is the same for the same seed; what its report says."""

from __future__ import annotations

import math

import pytest

from penstock.errors import UnknownNameError
from penstock.plugins.specs import RateEstimator
from penstock_testing.workload import WORKLOADS, Workload, at, named_workload
from penstock_testing.workload_report import report
from penstock_testing.workload_run import SimulatedBatch, WorkloadRun, simulate


class Constant(RateEstimator):
    """Says what it is told to, and keeps what it is told."""

    def __init__(self, *rates: float | None, initial_rate: float | None = None) -> None:
        self._rates = list(rates)
        self.initial_rate = initial_rate
        self.seen: list[tuple[int, int, int, int]] = []

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        self.seen.append((time, numElements, processingDelay, schedulingDelay))
        return self._rates[min(len(self.seen), len(self._rates)) - 1]


def plain(
    capacity: float = 1000, *offers: float, fixed_ms: float = 100, batches: int = 10, changes: tuple[int, ...] = (0,)
) -> Workload:
    sources = tuple(((0, offer),) for offer in offers)
    return Workload("plain", "", ((0, capacity),), sources, fixed_ms, 0.0, batches=batches, changes=changes)


def run_of(constant: Constant, workload: Workload) -> WorkloadRun:
    return simulate(workload, lambda _interval_ms: constant)


def test_steps() -> None:
    steps = ((0, 1.0), (3, 2.0), (5, 0.5))
    assert [at(steps, batch) for batch in range(7)] == [1, 1, 1, 2, 2, 0.5, 0.5]


def test_there_are_enough_workloads_and_each_is_what_it_is_called() -> None:
    assert len(WORKLOADS) >= 8
    for name, workload in WORKLOADS.items():
        assert named_workload(name) is workload
        assert workload.name == name
        assert workload.summary
        assert workload.sustained(workload.batches - 1) > 0
        for steps in (workload.capacity, *workload.sources):
            assert [since for since, _ in steps] == sorted({since for since, _ in steps})
            assert steps[0][0] == 0


def test_an_unknown_workload_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown workload 'stedy'. Did you mean 'steady'\? Known: .*step-down"):
        named_workload("stedy")


def test_without_a_limit_all_that_is_offered_comes_in_and_batches_queue() -> None:
    constant = Constant(None)
    run = run_of(constant, plain(1000, 1400))
    assert [batch.records for batch in run.batches] == [(1400,)] * 10
    assert [batch.processing_ms for batch in run.batches] == [1500] * 10
    assert [batch.scheduling_ms for batch in run.batches] == [500 * number for number in range(10)]
    # Batch 1 is due after 1 s and ends after 2.5 s, the others 1.5 s after each other; the run lasts 10 s.
    times = [time for time, *_ in constant.seen]
    assert [time - times[0] for time in times] == [0, 1500, 3000, 4500, 6000, 7500]


def test_a_rate_counts_from_the_end_of_the_batch_that_gave_it() -> None:
    run = run_of(Constant(500), plain(1000, 400, fixed_ms=0))
    # 400 records take 400 ms; nothing more than offered is ever let in.
    assert [batch.records for batch in run.batches] == [(400,)] * 10
    run = run_of(Constant(100, initial_rate=300), plain(1000, 1000, fixed_ms=0, batches=3))
    # 300 (and the token of the beginning) take 301 ms; then 0.301 s at 300/s and 0.699 s at 100/s.
    assert [batch.records for batch in run.batches] == [(301,), (160,), (100,)]


def test_a_source_catches_up_by_a_burst_and_by_what_waits() -> None:
    workload = Workload("", "", ((0, 1e6),), (((0, 0), (2, 1000)),), 0, 0.0, batches=5)
    run = simulate(workload, lambda _interval_ms: Constant(None, initial_rate=500))
    # Unused permits keep for 200 ms.
    assert [batch.records[0] for batch in run.batches] == [0, 0, 600, 500, 500]


def test_less_than_a_record_an_interval_makes_one_now_and_then() -> None:
    run = run_of(Constant(None, initial_rate=0.25), plain(1000, 10, batches=12))
    assert [batch.records[0] for batch in run.batches] == [1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 0.0, -1.0])
def test_what_is_no_rate_is_refused_and_counted(wrong: float) -> None:
    run = run_of(Constant(wrong, initial_rate=300), plain(1000, 1000, batches=5))
    assert {batch.rates for batch in run.batches} == {(300,)}
    assert report(run).refused == run.refused == 4


def test_the_same_seed_makes_the_same_run_and_another_another() -> None:
    noisy = WORKLOADS["noisy"]

    def run(seed: int) -> WorkloadRun:
        return simulate(noisy, lambda _interval_ms: Constant(5000), seed)

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_chance_is_the_same_for_every_estimator() -> None:
    noisy = WORKLOADS["noisy"]
    one = simulate(noisy, lambda _interval_ms: Constant(None, initial_rate=1e-9))
    other = simulate(noisy, lambda _interval_ms: Constant(None))
    # One has a record at first, then none: what is left are fixed costs.
    for idle, busy in zip(one.batches[1:], other.batches[1:], strict=True):
        assert busy.processing_ms / idle.processing_ms == pytest.approx((100 + 2000) / 100, rel=0.02)


def test_a_run_at_the_right_rate_from_the_beginning_is_reported_as_such() -> None:
    said = report(run_of(Constant(880, initial_rate=880), plain(1000, 2000, batches=50)))
    assert (said.settling, said.overshoot, said.queue, said.oscillation, said.stable) == (0, 0, 0, 0, True)
    assert said.used == said.in_time == said.nearly_in_time == pytest.approx(880 / 900, abs=0.001)


def test_a_run_without_a_limit_is_reported_as_unstable() -> None:
    said = report(run_of(Constant(None), plain(1000, 2000, batches=100)))
    assert not said.stable
    assert said.settling is None
    assert said.overshoot == pytest.approx(1.1)
    assert said.queue == pytest.approx(99 * 1.1)
    assert said.in_time == said.nearly_in_time == 0
    assert said.used == pytest.approx(47 * 2000 / (100 * 900))


def test_what_is_used_in_time_is_of_batches_that_end_before_the_next_is_due() -> None:
    def batch(waited_ms: int, took_ms: int) -> SimulatedBatch:
        return SimulatedBatch((90,), (90.0,), waited_ms, took_ms, 100.0)

    batches = (batch(0, 1000), batch(0, 1001), batch(1001, 1000), batch(1000, 1000), batch(1, 1000), batch(1, 1000))
    said = report(WorkloadRun(plain(1000, 2000, batches=6), batches, 0, ()))
    # The last ends after the run, and counts nowhere.
    assert (said.in_time, said.nearly_in_time, said.used) == pytest.approx((90 / 600, 360 / 600, 450 / 600))


def test_settling_is_that_of_the_slowest_change() -> None:
    def batch(records: int, delay_ms: int) -> SimulatedBatch:
        return SimulatedBatch((records,), (1.0,), 0, delay_ms, 100.0)

    well, late, idle = batch(90, 900), batch(90, 1600), batch(10, 100)
    batches = [late] * 4 + [well] * 16 + [idle] * 2 + [well] * 26
    workload = plain(1000, 2000, batches=48)
    assert report(WorkloadRun(workload, tuple(batches), 0, ())).settling == 4
    changing = plain(1000, 2000, batches=48, changes=(0, 20))
    # Five batches together must have 70 % of what they could: 10 + 10 + 90 + 90 + 90 of 500 are not enough.
    assert report(WorkloadRun(changing, tuple(batches), 0, ())).settling == 5
    never = plain(1000, 2000, batches=48, changes=(0, 46))
    assert report(WorkloadRun(never, tuple(batches), 0, ())).settling is None
