"""Rate estimator checks RE-08 to RE-18: behaviour in a closed loop with a simulated plant.

The plants have a capacity of 10,000 records/s, a fixed cost of 50 ms a batch, an interval of 1 s and 2 % noise unless a
check says otherwise; the source offers twice the capacity. A run has settled when batches carry 70 % of what the
capacity permits and end within 1.5 intervals of their time (``penstock.testing.report``).
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

from attrs import evolve

from penstock.rate.plant import Plant
from penstock.rate.plant_report import report
from penstock.rate.plant_run import PlantRun
from penstock.testing.check import NotApplicable, check, fail
from penstock.testing.checks.rate_estimator import START_MS
from penstock.testing.rate_estimator_kit import RateEstimatorKit

_CAPACITY = 10_000.0
_OFFERED = ((0, 2 * _CAPACITY),)
_INTERVAL_MS = 1000
_LINEAR = Plant("linear", "10,000/s, twice as much offered", ((0, _CAPACITY),), (_OFFERED,), batches=160)
#: Batches within which an estimator settles after a change: 14 doublings lead from 1 record to the capacity, a start
#: without a limit queues 5 intervals, which take 20 to drain at a rate that is a quarter below the capacity, and the
#: rest is for an estimator that follows each batch by a fifth.
_SETTLES = 60


def _plant(name: str, *steps: tuple[int, float], **changes: Any) -> Plant:
    """The linear plant with other capacities from batches on."""
    return evolve(_LINEAR, name=name, capacity=((0, _CAPACITY), *steps), **changes)


def _waits(run: PlantRun, since: int = 0) -> list[float]:
    """The waits of batches, in intervals."""
    return [batch.scheduling_ms / run.plant.interval_ms for batch in run.batches[since:]]


def _share(run: PlantRun, since: int) -> float:
    """The processed records from a batch on, as a share of those that the capacity permits."""
    batches = run.batches[since:]
    return sum(sum(batch.records) for batch in batches) / sum(batch.attainable for batch in batches)


def _settles(kit: RateEstimatorKit, plant: Plant, since: int = 0) -> None:
    """Fail unless a run settles in time after a batch, the last change of the plant."""
    run = kit.simulate(evolve(plant, changes=(since,)))
    settling = report(run).settling
    if settling is None or settling > _SETTLES:
        last = run.batches[-1]
        fail(
            f"{'not settled' if settling is None else f'settled after {settling} batches'}; the last 20 batches have "
            f"{_share(run, -20):.0%} of the attainable records, wait {max(_waits(run, -20)):.1f} intervals at most; "
            f"the last rate is {last.rates[0]:.4g}/s, {plant.sustained(len(run.batches) - 1):.4g}/s are attainable",
            plant,
        )


@check("RE-08", "must", change="lower the rate when batches take longer than the interval")
def overload_lowers(kit: RateEstimatorKit) -> None:
    """Batches that take longer than the interval lower the rate.

    Purpose: this is what backpressure is for.
    Method: 40 batches by the estimator's own rate at a capacity of 10,000/s; then 4 that take 3 intervals each, so
        that the next ones wait 2, 4 and 6 intervals.
    Condition: the rate then is below 90 % of the rate before. Four batches permit an estimator to take the first for
        an outlier; 10 % is more than the noise of a plant.
    Requires: adapts; without it, that the rate does not change.
    """
    estimator = kit.make(_INTERVAL_MS)
    rate = before = estimator.initial_rate
    rates = []
    free = now = START_MS
    for number in range(44):
        if number == 40:
            before = rate
        now += _INTERVAL_MS
        records = max(int(min(rate or _CAPACITY / 2, 2 * _CAPACITY)), 1)
        took = 50 + round(records * 1000 / _CAPACITY) if number < 40 else 3 * _INTERVAL_MS
        start = max(now, free)
        free = start + took
        rate = kit.ask(estimator, (free, records, took, start - now)) or rate
        rates.append(rate)
    if not kit.capabilities.adapts:
        if len(set(rates)) > 1:
            fail(f"Capabilities.adapts is not set, but the rate went from {rates[0]} to {rates[-1]}")
        raise NotApplicable("Capabilities.adapts is not set")
    if before is None or rate is None or rate >= 0.9 * before:
        fail(f"the rate was {before} and is {rate}", "4 batches that take 3 intervals each")


@check("RE-09", "must", requires="adapts", change="raise the rate when batches end before the next one is due")
def spare_capacity_raises(kit: RateEstimatorKit) -> None:
    """After a disturbance the rate recovers: it does not stay low while capacity is idle.

    Purpose: with a fixed cost small batches look slow, and an estimator that follows them stays at its floor.
    Method: a fixed cost of 200 ms; from batch 60 to 64 the capacity falls to 2,000/s, then it is 10,000/s again.
    Condition: from batch 64 on it settles (70 % of what the capacity permits) within 60 batches: what four batches
        of five intervals each have left has to drain first, which takes 20.
    Requires: adapts.
    """
    _settles(kit, _plant("disturbed", (60, 2000.0), (64, _CAPACITY), fixed_ms=200.0), 64)


@check("RE-10", "must", requires="adapts", change="aim at batches that take 70 to 100 % of the interval")
def settles_on_a_linear_plant(kit: RateEstimatorKit) -> None:
    """On a plant that does not change the rate settles near the capacity.

    Purpose: the simplest case.
    Method: the linear plant, 160 batches.
    Condition: it settles within 60 batches: 14 doublings lead from 1 record to the capacity, a start without a limit
        has 5 intervals to drain, and the rest is for an estimator that follows each batch by a fifth.
    Requires: adapts.
    """
    _settles(kit, _LINEAR)


@check("RE-11", "must", requires="adapts", change="start low, or count the scheduling delay as work still to be done")
def overshoot_bounded(kit: RateEstimatorKit) -> None:
    """The queue of batches stays short from the first batch on.

    Purpose: what queues delays every result, and fills the executors' memory and disks.
    Method: the linear plant with three seeds.
    Condition: no batch waits longer than 8 intervals. Without an initial rate the first limit comes with the second
        batch, as in Spark: 5 batches of 2 intervals each are cut until then, and the last one waits 5.
    Requires: adapts.
    """
    for seed in (1, 2, 3):
        run = kit.simulate(_LINEAR, seed)
        if (longest := max(_waits(run))) > 8:
            number = _waits(run).index(longest)
            fail(f"batch {number} waits {longest:.1f} intervals", f"{_LINEAR}, seed {seed}")


@check("RE-12", "must", requires="adapts", change="aim below the capacity while batches wait, so that the queue drains")
def backlog_drains(kit: RateEstimatorKit) -> None:
    """A queue that a pause has left drains.

    Purpose: an estimator that matches the capacity exactly keeps a queue for ever.
    Method: the linear plant; batch 60 takes ten times as long, as in a long garbage collection.
    Condition: from batch 110 on no batch waits more than 1 interval. 9 intervals of work drain within 40 batches at a
        rate that is a quarter below the capacity; 10 batches are reserve.
    Requires: adapts.
    """
    plant = _plant("pause", (60, _CAPACITY / 10), (61, _CAPACITY))
    if (longest := max(_waits(kit.simulate(plant), 110))) > 1:
        fail(f"batches still wait {longest:.1f} intervals 50 batches after the pause", plant)


@check("RE-13", "must", requires="adapts", change="forget old batches when several in a row are slower")
def step_down_followed(kit: RateEstimatorKit) -> None:
    """A lasting loss of capacity is followed.

    Purpose: an executor is lost, a neighbour takes the processor.
    Method: the capacity falls from 10,000/s to 4,000/s at batch 80.
    Condition: from there on it settles within 60 batches: 3 batches of 2.5 intervals are cut before the first of them
        has ended, and what they leave drains in 20.
    Requires: adapts.
    """
    _settles(kit, _plant("step-down", (80, 4000.0)), 80)


@check("RE-14", "should", requires="adapts", change="probe for more while batches end early and the rate is the limit")
def step_up_followed(kit: RateEstimatorKit) -> None:
    """A lasting gain of capacity is used.

    Purpose: executors are added.
    Method: the capacity rises from 5,000/s to 10,000/s at batch 80.
    Condition: from there on it settles within 60 batches: 1 % more a batch would do.
    Requires: adapts.
    """
    plant = evolve(_LINEAR, name="step-up", capacity=((0, _CAPACITY / 2), (80, _CAPACITY)), sources=(((0, 12_000.0),),))
    _settles(kit, plant, 80)


@check("RE-15", "should", requires="adapts", change="average over several batches")
def noise_is_damped(kit: RateEstimatorKit) -> None:
    """The rate varies less than the durations of batches do.

    Purpose: a rate that follows each batch makes the next one vary, and the queue with it.
    Method: the linear plant with durations that vary by 25 %, three seeds; the mean change of the rate from one batch
        to the next, relative to it, in the last quarter of each run.
    Condition: the mean of the three is below 12.5 %: half the noise, which an average over the last four batches gives.
    Requires: adapts.
    """
    plant = evolve(_LINEAR, name="noisy", noise=0.25)
    change = fmean(report(kit.simulate(plant, seed)).oscillation for seed in (1, 2, 3))
    if change >= 0.125:
        fail(f"the rate changes by {change:.1%} from batch to batch", plant)


@check("RE-16", "must", requires="adapts", change="do not raise the rate further while the input is below it")
def starved_source_no_windup(kit: RateEstimatorKit) -> None:
    """A source that was quiet for long and then bursts does not flood the program.

    Purpose: while the input limits, short batches say that there is room; a rate raised for each has no bound.
    Method: the source offers 100/s for 100 batches, then 20,000/s.
    Condition: no batch waits longer than 5 intervals: a rate at twice the capacity, corrected after the first batch
        of the burst, makes 3.
    Requires: adapts.
    """
    plant = _plant("starved", sources=(((0, 100.0), (100, 20_000.0)),))
    run = kit.simulate(plant)
    if (longest := max(_waits(run))) > 5:
        fail(
            f"the burst at the rate {run.batches[100].rates[0]:.4g}/s makes batches wait {longest:.1f} intervals", plant
        )


@check("RE-17", "must", requires="adapts", change="tell the fixed cost of a batch from the cost of its records")
def fixed_cost_plant_stable(kit: RateEstimatorKit) -> None:
    """A high fixed cost makes the loop neither unstable nor starve.

    Purpose: a batch's duration is not proportional to its records; Spark's jobs have a fixed cost.
    Method: a fixed cost of 600 of 1,000 ms.
    Condition: in the last 40 of 160 batches none waits more than 2 intervals, and they have at least 50 % of the
        records that the rest of the interval permits. An estimator that aims at 85 % of the interval reaches 62 %.
    Requires: adapts.
    """
    plant = evolve(_LINEAR, name="fixed-cost", fixed_ms=600.0)
    run = kit.simulate(plant)
    share, longest = _share(run, -40), max(_waits(run, -40))
    if longest > 2 or share < 0.5:
        fail(f"the last 40 batches have {share:.0%} of the attainable records and wait {longest:.1f} intervals", plant)


@check("RE-18", "should", requires="shares", change="use the processing delay that is given: it is the stream's share")
def two_streams_share_fairly(kit: RateEstimatorKit) -> None:
    """Two streams with an estimator each share the capacity.

    Purpose: neither stream may starve the other.
    Method: the linear plant with two streams: both offer twice the capacity; then one offers 1,000/s only.
    Condition: in the last 40 of 160 batches each of two equal streams has at least 35 % of the records (50 % is
        exact); the small stream gets 90 % of what it offers, and the large one at least half of the capacity.
    Requires: adapts, shares.
    """
    if not kit.capabilities.adapts:
        raise NotApplicable("Capabilities.adapts is not set")
    equal = evolve(_LINEAR, name="two streams", sources=(_OFFERED, _OFFERED))
    one, other = _records(kit.simulate(equal))
    if min(one, other) < 0.35 * (one + other):
        fail(f"the streams get {one:.4g} and {other:.4g} records/s", equal)
    uneven = evolve(_LINEAR, name="uneven streams", sources=(_OFFERED, ((0, 1000.0),)))
    large, small = _records(kit.simulate(uneven))
    if small < 900 or large < _CAPACITY / 2:
        fail(f"the large stream gets {large:.4g} records/s, the small one {small:.4g} of 1,000", uneven)


def _records(run: PlantRun) -> list[float]:
    """Records/s of each stream in the last 40 batches."""
    return [fmean(batch.records[stream] for batch in run.batches[-40:]) for stream in range(len(run.plant.sources))]
