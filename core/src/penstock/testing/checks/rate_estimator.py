"""Rate estimator checks RE-01 to RE-07, RE-21 and RE-24: answers to single batches, parameters, the reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from numbers import Real
from typing import get_args, get_type_hints

import attrs

from penstock.plugins.discovery import KINDS, Plugins
from penstock.plugins.specs import RateEstimator, read_options
from penstock.testing.check import check, fail
from penstock.testing.rate_estimator_kit import RateEstimatorKit
from penstock.testing.subject import HOOKS

#: End of processing in ms, records, processing delay in ms, scheduling delay in ms: the arguments of ``compute``.
Batch = tuple[int, int, int, int]

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def is_rate(answer: object) -> bool:
    """Whether an answer is a finite number above 0."""
    return isinstance(answer, Real) and not isinstance(answer, bool) and 0 < float(answer) < math.inf


def plausible_batches(kit: RateEstimatorKit, count: int) -> list[Batch]:
    """Batches of 300 to 1,500 records that take 50 ms and 0.4 to 0.8 ms a record, one each second."""
    batches = []
    for number in range(1, count + 1):
        records = kit.rng.randrange(300, 1500)
        took = 50 + round(records * kit.rng.uniform(0.4, 0.8))
        waited = max(0, took - 1000)
        batches.append((START_MS + number * 1000 + waited + took, records, took, waited))
    return batches


@check("RE-01", "must", change="return None when there is no estimate, and clamp every other answer to a minimum")
def none_or_finite_positive(kit: RateEstimatorKit) -> None:
    """Every answer is None or a finite number above 0.

    Purpose: a rate of 0, NaN or infinity stops a receiver or removes its limit.
    Method: 200 seeded batches with sizes from 0 to 10^6 records and delays from 0 to 10 s.
    Condition: ``initial_rate`` and each answer is None or a finite number above 0, no text and no truth value.
    Requires: nothing.
    """
    estimator = kit.make()
    if estimator.initial_rate is not None and not is_rate(estimator.initial_rate):
        fail(f"initial_rate is {estimator.initial_rate!r}")
    for number in range(1, 201):
        batch = (
            START_MS + number * 1000,
            kit.rng.choice([0, 1, 1000, 10**6]),
            kit.rng.randrange(10_000),
            kit.rng.randrange(10_000),
        )
        rate = kit.ask(estimator, batch)
        if rate is not None and not is_rate(rate):
            fail(f"compute answered {rate!r}", f"compute{batch}")


@check("RE-02", "must", change="clamp every answer to the declared minimum and maximum")
def floor_and_ceiling_hold(kit: RateEstimatorKit) -> None:
    """No batch, however slow or fast, leads out of the declared range of rates.

    Purpose: a rate that decays without a floor stops the receiver for good, since no batch with records follows from
        which to estimate; one without a ceiling is no limit.
    Method: 200 batches of 1 record that take a day and waited a day, then 200 of 10^12 records that take 1 ms.
    Condition: each answer is at least ``Capabilities.min_rate`` and at most ``Capabilities.max_rate``. The default
        minimum, 1e-5/s, is about one record a day; the default maximum is 2^53/s, above which the float arithmetic of
        a rate limiter loses records.
    Requires: nothing.
    """
    estimator, now = kit.make(), START_MS
    low, high = kit.capabilities.min_rate, kit.capabilities.max_rate
    for batch in [(1, DAY_MS, DAY_MS)] * 200 + [(10**12, 1, 0)] * 200:
        now += batch[1]
        rate = kit.ask(estimator, (now, *batch))
        if rate is not None and not low <= rate <= high:
            fail(f"compute answered {rate!r}, declared are {low:g} to {high:g} records/s", f"compute{(now, *batch)}")


@check("RE-03", "must", change="return None for a batch without records before anything is remembered")
def empty_batch_changes_nothing(kit: RateEstimatorKit) -> None:
    """A batch without records leaves the rate and everything remembered as it is.

    Purpose: an idle source says nothing about the capacity.
    Method: an estimator gets 12 batches and, at several places, batches without records; another gets the 12 alone.
    Condition: the additional batches get None or the rate in force, and all other answers are equal.
    Requires: nothing.
    """
    _changes_nothing(kit, lambda before, after: [(now, 0, 7, 0) for now in (before + 1, after - 1)])


@check("RE-04", "must", change="return None for a processing delay of 0 before anything is remembered")
def zero_time_changes_nothing(kit: RateEstimatorKit) -> None:
    """A batch that took 0 ms leaves the rate and everything remembered as it is.

    Purpose: a duration below the clock's resolution is no infinite speed, and no division by zero.
    Method: as RE-03, with additional batches of 500 records that took 0 ms.
    Condition: as RE-03.
    Requires: nothing.
    """
    _changes_nothing(kit, lambda before, after: [(now, 500, 0, 0) for now in (before + 1, after - 1)])


@check("RE-05", "must", change="return None for a batch that did not end after the last one that was used")
def stale_time_ignored(kit: RateEstimatorKit) -> None:
    """A batch that did not end after the last one leaves the rate and everything remembered as it is.

    Purpose: the wall clock can be set back, and events can be repeated; a time difference of 0 or less is an error in
        every derivative.
    Method: as RE-03, with additional batches that end at the same time as the last one, and an hour before it.
    Condition: as RE-03.
    Requires: nothing.
    """
    _changes_nothing(
        kit, lambda before, _after: [(before, 900, 300, 0), (before - 3_600_000, 10, 900, 0)], places=(1, 2, 5, 9)
    )


def _changes_nothing(
    kit: RateEstimatorKit, odd: Callable[[int, int], list[Batch]], places: Sequence[int] = (0, 1, 2, 5, 9)
) -> None:
    """Insert batches before those at some places: ``odd`` makes them from the end of the one before and the next."""
    batches = plausible_batches(kit, 12)
    plain, disturbed = kit.make(), kit.make()
    in_force = plain.initial_rate
    before = START_MS
    for number, batch in enumerate(batches):
        extras = odd(before, batch[0]) if number in places else []
        for extra in extras:
            answer = kit.ask(disturbed, extra)
            if answer is not None and answer != in_force:
                fail(f"after {number} batches the rate changed from {in_force} to {answer}", f"compute{extra}")
        expected, seen = kit.ask(plain, batch), kit.ask(disturbed, batch)
        if expected != seen:
            fail(
                f"batch {number + 1} got {seen} after such a batch, {expected} without it",
                f"compute{(extras or [batch])[0]}",
            )
        in_force = expected if expected is not None else in_force
        before = batch[0]


@check("RE-06", "must", change="handle the first batch apart: there is no earlier time, rate or error to compare with")
def first_update_defined(kit: RateEstimatorKit) -> None:
    """The first batch has a defined answer, whatever it is and wherever the rate begins; soon there is a rate.

    Purpose: what compares with an earlier batch has none at first. Receivers are unlimited until the first rate.
    Method: new estimators, with and without ``begin_with(500)``, get as their first batch: no records, no duration,
        one record, 10^9 records, a batch that waited a day; then four plausible batches.
    Condition: each answer is None or a rate. The initial rate, or one of the first three plausible batches, gives a
        rate: Spark's estimator needs two, and every batch more is unlimited.
    Requires: nothing.
    """
    firsts = [(0, 10, 0), (10, 0, 0), (1, 1, 0), (10**9, 1, 0), (100, 10, DAY_MS)]
    for begins, first in product((False, True), firsts):
        estimator = kit.make()
        rates: list[float | None] = [500.0 if begins else estimator.initial_rate]
        if begins:
            estimator.begin_with(500.0)
        for number, batch in enumerate([(START_MS, *first), *plausible_batches(kit, 3)]):
            rates.append(kit.ask(estimator, batch))
            if rates[-1] is not None and not is_rate(rates[-1]):
                fail(f"batch {number + 1} got {rates[-1]!r}", f"compute{batch} after first {first}")
        if rates == [None] * len(rates):
            fail("no rate after three batches with records", f"first batch {first}, then 3 plausible batches")


@check("RE-07", "must", change="raise ValueError in __init__ or in a validator of the options class")
def bad_parameters_refused(kit: RateEstimatorKit) -> None:
    """A batch interval without length is refused when the estimator is made, and so is NaN as an option.

    Purpose: what is wrong is reported when the program starts, not as wrong rates.
    Method: makes an estimator for intervals of 0, -1 and -1000 ms; of an installed plugin also with NaN for each
        option that takes a float.
    Condition: each raises ``ValueError`` (``ConfigurationError`` is one).
    Requires: nothing; the options are tested when the suite names an installed plugin.
    """
    for interval in (0, -1, -1000):
        try:
            kit.subject.instance(interval)
        except ValueError:
            continue
        except Exception as error:
            fail(f"raised {type(error).__name__}: {error}", f"batch_interval_ms={interval}", "raise ValueError")
        fail("an estimator was made", f"batch_interval_ms={interval}")
    for option in _float_options(kit):
        try:
            _read_option(kit, option, math.nan)
        except ValueError:
            continue
        fail("the option was accepted", f"{option}=nan")


def _float_options(kit: RateEstimatorKit) -> Iterator[str]:
    if not kit.subject.name:
        return
    options = Plugins().spec(HOOKS[kit.subject.kind], kit.subject.name).options
    if options is None:
        return
    hints = get_type_hints(options)
    for each in attrs.fields(options):
        if each.init and float in (hints.get(each.name), *get_args(hints.get(each.name))):
            yield each.alias or each.name


def _read_option(kit: RateEstimatorKit, name: str, value: float) -> None:
    hook = HOOKS[kit.subject.kind]
    read_options(KINDS[hook][0], Plugins().spec(hook, kit.subject.name), {**kit.subject.options, name: value})


@check("RE-21", "must", change="bound what is computed and remembered; use floats where products grow large")
def extremes_safe(kit: RateEstimatorKit) -> None:
    """Extreme batches and intervals raise nothing and give valid rates, also afterwards.

    Purpose: a burst after an outage, or a paused virtual machine, must not spoil an estimator for good.
    Method: for intervals of 1 ms, 1 s and 1 day: 64 seeded batches of 1 or 10^12 records that take 1 ms or 1 day and
        waited 0 ms or 1 day; then 20 plausible batches.
    Condition: each answer is None or a finite number above 0, and the plausible batches give at least one rate.
    Requires: nothing.
    """
    extremes = list(product((1, 10**12), (1, DAY_MS), (0, DAY_MS)))
    for interval in (1, 1000, DAY_MS):
        estimator, now = kit.make(interval), START_MS
        for _ in range(64):
            batch = kit.rng.choice(extremes)
            now += kit.rng.choice((1, interval, DAY_MS))
            _ask_for_rate(kit, estimator, (now, *batch), f"interval {interval} ms")
        answers = [
            _ask_for_rate(kit, estimator, (now + number * 1000, 500, 400, 0), "after extreme batches")
            for number in range(1, 21)
        ]
        if answers == [None] * len(answers):
            fail("no rate from 20 plausible batches after extreme ones", f"interval {interval} ms")


def _ask_for_rate(kit: RateEstimatorKit, estimator: RateEstimator, batch: Batch, when: str) -> float | None:
    rate = kit.ask(estimator, batch)
    if rate is not None and not is_rate(rate):
        fail(f"compute answered {rate!r}", f"compute{batch}, {when}")
    return rate


@check("RE-24", "may", change="set self.reason to one line of text in every call of compute")
def explains_itself(kit: RateEstimatorKit) -> None:
    """The reason of the last answer can be read.

    Purpose: logs and the dashboard show why a rate was chosen.
    Method: 12 plausible batches and one without records; reads ``reason`` after each.
    Condition: it is text of one line with 1 to 300 characters.
    Requires: nothing.
    """
    estimator = kit.make()
    for batch in [*plausible_batches(kit, 12), (START_MS + 20_000, 0, 7, 0)]:
        kit.ask(estimator, batch)
        reason = estimator.reason
        if not isinstance(reason, str) or not 1 <= len(reason) <= 300 or "\n" in reason:
            fail(f"reason is {reason!r}", f"compute{batch}")
