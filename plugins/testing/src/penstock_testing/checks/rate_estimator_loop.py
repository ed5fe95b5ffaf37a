"""Rate estimator checks RE-08 to RE-18: behaviour in a closed loop with a simulated workload.

Unless a check says otherwise, a workload has a capacity of 10,000 records/s, a fixed cost of 50 ms a batch, an interval
of 1 s and 2 % noise, and the source offers twice the capacity. A run has settled when batches have 70 % of the records
that the capacity permits and end within 1.5 intervals of their batch time (``penstock_testing.report``).
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

from attrs import evolve

from penstock_testing.check import NotApplicable, check, fail
from penstock_testing.checks.rate_estimator import START_MS
from penstock_testing.rate_estimator_subject import RateEstimatorSubject
from penstock_testing.workload import Workload
from penstock_testing.workload_report import report
from penstock_testing.workload_run import WorkloadRun

_CAPACITY = 10_000.0
_OFFERED = ((0, 2 * _CAPACITY),)
_INTERVAL_MS = 1000
_LINEAR = Workload("linear", "10,000/s, twice as much offered", ((0, _CAPACITY),), (_OFFERED,), batches=160)
#: The number of batches within which an estimator settles after a change. 14 doublings lead from 1 record to the
#: capacity. A start without a limit queues 5 intervals of work; at a rate a quarter below the capacity they drain in 20
#: batches. The remaining batches are for an estimator that corrects a fifth of the error in each batch.
_SETTLES = 60


def _workload(name: str, *steps: tuple[int, float], **changes: Any) -> Workload:
    """The linear workload with steps: pairs of a batch number and the capacity from this batch on."""
    return evolve(_LINEAR, name=name, capacity=((0, _CAPACITY), *steps), **changes)


def _waits(run: WorkloadRun, since: int = 0) -> list[float]:
    """The scheduling delays of the batches, in intervals."""
    return [batch.scheduling_ms / run.workload.interval_ms for batch in run.batches[since:]]


def _share(run: WorkloadRun, since: int) -> float:
    """The processed records from a batch on, as a share of the records that the capacity permits."""
    batches = run.batches[since:]
    return sum(sum(batch.records) for batch in batches) / sum(batch.attainable for batch in batches)


def _settles(subject: RateEstimatorSubject, workload: Workload, since: int = 0) -> None:
    """Fail unless a run settles within ``_SETTLES`` batches after batch ``since``, the last change of the workload."""
    run = subject.simulate(evolve(workload, changes=(since,)))
    settling = report(run).settling
    if settling is None or settling > _SETTLES:
        last = run.batches[-1]
        within = f"within {_SETTLES} batches"
        result = f"has not settled {within}" if settling is None else f"settled after {settling} batches, not {within}"
        fail(
            f"the rate {result}; the last 20 batches have {_share(run, -20):.0%} of the attainable records and "
            f"wait {max(_waits(run, -20)):.1f} intervals at most; the last rate is {last.rates[0]:.4g}/s, and "
            f"{workload.sustained(len(run.batches) - 1):.4g}/s are attainable",
            workload,
        )


class RateEstimatorLoopChecks:
    """The checks of this module, as test methods."""

    @check("RE-08", "must", change="lower the rate when batches take longer than the interval")
    def test_RE_08_overload_lowers(self, subject: RateEstimatorSubject) -> None:
        """Batches that take longer than the interval lower the rate.

        Purpose: this is the task of backpressure.
        Condition: the rate falls below 90 % of the rate before. With four batches an estimator may treat the first as
            an outlier; 10 % exceeds the noise of a workload.
        """
        estimator = subject.make(_INTERVAL_MS)
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
            rate = subject.ask(estimator, (free, records, took, start - now)) or rate
            rates.append(rate)
        if not subject.capabilities.adapts:
            if len(set(rates)) > 1:
                fail(f"Capabilities.adapts is not set, but the rate changed from {rates[0]} to {rates[-1]}")
            raise NotApplicable("Capabilities.adapts is not set")
        if before is None or rate is None or rate >= 0.9 * before:
            fail(
                f"the rate was {before} before the overload and is {rate} after it, not below 90 %",
                "4 batches that take 3 intervals each",
            )

    @check("RE-09", "must", requires="adapts", change="raise the rate when batches end before the next one is due")
    def test_RE_09_spare_capacity_raises(self, subject: RateEstimatorSubject) -> None:
        """The rate recovers after a disturbance: it does not stay low while capacity is idle.

        Purpose: with a fixed cost small batches look slow, and an estimator that follows them stays at its floor.
        Condition: from batch 64 on the rate settles within 60 batches. The queue of four batches of five intervals each
            takes 20 batches to drain.
        """
        _settles(subject, _workload("disturbed", (60, 2000.0), (64, _CAPACITY), fixed_ms=200.0), 64)

    @check("RE-10", "must", requires="adapts", change="aim at batches that take 70 to 100 % of the interval")
    def test_RE_10_settles_on_a_linear_workload(self, subject: RateEstimatorSubject) -> None:
        """On a constant workload the rate settles near the capacity.

        Purpose: an estimator must handle the simplest case.
        Condition: the rate settles within 60 batches. 14 doublings lead from 1 record to the capacity; a start without
            a limit queues 5 intervals of work; the remaining batches are for an estimator that corrects a fifth of the
            error in each batch.
        """
        _settles(subject, _LINEAR)

    @check(
        "RE-11",
        "must",
        requires="adapts",
        change="start low, or treat the scheduling delay as a backlog to be processed",
    )
    def test_RE_11_overshoot_bounded(self, subject: RateEstimatorSubject) -> None:
        """The queue of batches stays short from the first batch on.

        Purpose: a queue of batches delays every result, and fills the executors' memory and disks.
        Condition: no batch waits longer than 8 intervals. Without an initial rate the second batch gives the first
            limit, as in Spark: until then 5 batches of 2 intervals each are generated, of which the last one waits 5.
        """
        for seed in (1, 2, 3):
            run = subject.simulate(_LINEAR, seed)
            if (longest := max(_waits(run))) > 8:
                number = _waits(run).index(longest)
                fail(f"batch {number} waits {longest:.1f} intervals, and 8 are permitted", f"{_LINEAR}, seed {seed}")

    @check(
        "RE-12", "must", requires="adapts", change="aim below the capacity while batches wait, so that the queue drains"
    )
    def test_RE_12_backlog_drains(self, subject: RateEstimatorSubject) -> None:
        """The queue of batches drains after a pause.

        Purpose: an estimator that matches the capacity exactly never drains its queue.
        Condition: from batch 110 on no batch waits longer than 1 interval. At a rate a quarter below the capacity, 9
            intervals of work drain within 40 batches; 10 batches are a reserve.
        """
        workload = _workload("pause", (60, _CAPACITY / 10), (61, _CAPACITY))
        if (longest := max(_waits(subject.simulate(workload), 110))) > 1:
            fail(f"batches still wait {longest:.1f} intervals 50 batches after the pause, and 1 is permitted", workload)

    @check("RE-13", "must", requires="adapts", change="discard old batches when several consecutive ones are slower")
    def test_RE_13_step_down_followed(self, subject: RateEstimatorSubject) -> None:
        """The rate follows a lasting loss of capacity.

        Purpose: an executor is lost, or another application takes processor time.
        Condition: from batch 80 on the rate settles within 60 batches. 3 batches of 2.5 intervals each are generated
            before the first of them has ended, and their queue drains in 20.
        """
        _settles(subject, _workload("step-down", (80, 4000.0)), 80)

    @check(
        "RE-14",
        "should",
        requires="adapts",
        change="raise the rate while batches end early and the rate limits the input",
    )
    def test_RE_14_step_up_followed(self, subject: RateEstimatorSubject) -> None:
        """The rate follows a lasting gain of capacity.

        Purpose: executors are added while the program runs.
        Condition: from batch 80 on the rate settles within 60 batches; an increase of 1 % a batch is sufficient.
        """
        workload = evolve(
            _LINEAR, name="step-up", capacity=((0, _CAPACITY / 2), (80, _CAPACITY)), sources=(((0, 12_000.0),),)
        )
        _settles(subject, workload, 80)

    @check("RE-15", "should", requires="adapts", change="average over several batches")
    def test_RE_15_noise_is_damped(self, subject: RateEstimatorSubject) -> None:
        """The rate varies less than the processing delays.

        Purpose: a rate that follows each batch makes the next batch vary, and the queue with it.
        Condition: the mean of the three is below 12.5 %, half of the noise. An average over the last four batches gives
            it.
        """
        workload = evolve(_LINEAR, name="noisy", noise=0.25)
        change = fmean(report(subject.simulate(workload, seed)).oscillation for seed in (1, 2, 3))
        if change >= 0.125:
            fail(f"the rate changes by {change:.1%} from batch to batch, and less than 12.5 % is permitted", workload)

    @check("RE-16", "must", requires="adapts", change="do not raise the rate further while the input is below it")
    def test_RE_16_starved_source_no_windup(self, subject: RateEstimatorSubject) -> None:
        """A burst after a long quiet period does not flood the program.

        Purpose: batches are short while the source has little data. An estimator that raises the rate for each of them
            has no limit left when the source bursts.
        Condition: no batch waits longer than 5 intervals. A rate of twice the capacity, corrected after the first batch
            of the burst, lets batches wait 3.
        """
        workload = _workload("starved", sources=(((0, 100.0), (100, 20_000.0)),))
        run = subject.simulate(workload)
        if (longest := max(_waits(run))) > 5:
            fail(
                f"the burst at the rate {run.batches[100].rates[0]:.4g}/s makes batches wait {longest:.1f} intervals, "
                "and 5 are permitted",
                workload,
            )

    @check("RE-17", "must", requires="adapts", change="separate the fixed cost of a batch from the cost of its records")
    def test_RE_17_fixed_cost_workload_stable(self, subject: RateEstimatorSubject) -> None:
        """With a high fixed cost the loop stays stable and uses the capacity.

        Purpose: a batch's processing delay is not proportional to its records, since Spark's jobs have a fixed cost.
        Condition: none of the last 40 of 160 batches waits longer than 2 intervals, and they have at least 50 % of the
            records that the remaining 400 ms permit. An estimator that aims at 85 % of the interval reaches 62 %.
        """
        workload = evolve(_LINEAR, name="fixed-cost", fixed_ms=600.0)
        run = subject.simulate(workload)
        share, longest = _share(run, -40), max(_waits(run, -40))
        if longest > 2 or share < 0.5:
            fail(
                f"the last 40 batches have {share:.0%} of the attainable records, at least 50 % are required; they "
                f"wait {longest:.1f} intervals, and 2 are permitted",
                workload,
            )

    @check(
        "RE-18", "should", requires="shares", change="use processingDelay as it is given: it is the stream's own share"
    )
    def test_RE_18_two_streams_share_fairly(self, subject: RateEstimatorSubject) -> None:
        """Two streams with an estimator each share the capacity.

        Purpose: neither stream may starve the other.
        Condition: in the last 40 of 160 batches each of two equal streams has at least 35 % of the records (an equal
            share is 50 %). The small stream gets 90 % of its offer, and the large one at least half of the capacity.
        """
        if not subject.capabilities.adapts:
            raise NotApplicable("Capabilities.adapts is not set")
        equal = evolve(_LINEAR, name="two streams", sources=(_OFFERED, _OFFERED))
        one, other = _records(subject.simulate(equal))
        if min(one, other) < 0.35 * (one + other):
            fail(f"two equal streams get {one:.4g} and {other:.4g} records/s, less than 35 % for one of them", equal)
        uneven = evolve(_LINEAR, name="uneven streams", sources=(_OFFERED, ((0, 1000.0),)))
        large, small = _records(subject.simulate(uneven))
        if small < 900 or large < _CAPACITY / 2:
            fail(
                f"the large stream gets {large:.4g} records/s of a capacity of 10,000, the small one {small:.4g} "
                "of 1,000",
                uneven,
            )


def _records(run: WorkloadRun) -> list[float]:
    """Records/s of each stream in the last 40 batches."""
    return [fmean(batch.records[stream] for batch in run.batches[-40:]) for stream in range(len(run.workload.sources))]
