"""Rate estimator checks RE-01 to RE-07, RE-21 and RE-24: answers to single batches, parameters, ``reason``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from numbers import Real
from typing import get_args, get_type_hints

import attrs

from penstock import RateEstimator
from penstock.spi import Plugins
from penstock_testing.check import check, fail
from penstock_testing.rate_estimator_subject import RateEstimatorSubject
from penstock_testing.subject import HOOKS

#: The arguments of ``compute``: end of processing in ms, records, processing delay in ms, scheduling delay in ms.
Batch = tuple[int, int, int, int]

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def is_rate(answer: object) -> bool:
    """Whether an answer is a finite number above 0."""
    return isinstance(answer, Real) and not isinstance(answer, bool) and 0 < float(answer) < math.inf


def plausible_batches(subject: RateEstimatorSubject, count: int) -> list[Batch]:
    """One batch per second with 300 to 1,500 records, which takes 50 ms plus 0.4 to 0.8 ms per record."""
    batches = []
    for number in range(1, count + 1):
        records = subject.rng.randrange(300, 1500)
        took = 50 + round(records * subject.rng.uniform(0.4, 0.8))
        waited = max(0, took - 1000)
        batches.append((START_MS + number * 1000 + waited + took, records, took, waited))
    return batches


class RateEstimatorChecks:
    """The checks of this module, as test methods."""

    @check(
        "RE-01", "must", change="return None without an estimate, and clamp every other answer to a positive minimum"
    )
    def test_RE_01_none_or_finite_positive(self, subject: RateEstimatorSubject) -> None:
        """Every answer is None or a finite number above 0.

        Purpose: a rate of 0, NaN or infinity stops a receiver or removes its limit.
        Condition: ``initial_rate`` and each answer is None or a finite number above 0, and neither a string nor a bool.
        """
        estimator = subject.make()
        if estimator.initial_rate is not None and not is_rate(estimator.initial_rate):
            fail(f"initial_rate is {estimator.initial_rate!r}")
        for number in range(1, 3001):
            batch = (
                START_MS + number * 1000,
                subject.rng.choice([0, 1, 1000, 10**6]),
                subject.rng.randrange(10_000),
                subject.rng.randrange(10_000),
            )
            rate = subject.ask(estimator, batch)
            if rate is not None and not is_rate(rate):
                fail(f"compute returned {rate!r}, which is neither None nor a finite number above 0", f"compute{batch}")

    @check("RE-02", "must", change="clamp every answer to the declared minimum and maximum")
    def test_RE_02_floor_and_ceiling_hold(self, subject: RateEstimatorSubject) -> None:
        """No batch, however slow or fast, moves the rate out of the declared range.

        Purpose: without a floor a falling rate stops the receiver for good: no batch has records from which to
            estimate. Without a ceiling a rising rate limits nothing.
        Condition: each answer is at least ``Capabilities.min_rate`` and at most ``Capabilities.max_rate``. The default
            minimum, 1e-5/s, is about one record a day; the default maximum is 2^53/s, above which the float arithmetic
            of a rate limiter loses records.
        """
        estimator, now = subject.make(), START_MS
        low, high = subject.capabilities.min_rate, subject.capabilities.max_rate
        for batch in [(1, DAY_MS, DAY_MS)] * 200 + [(10**12, 1, 0)] * 200:
            now += batch[1]
            rate = subject.ask(estimator, (now, *batch))
            if rate is not None and not low <= rate <= high:
                fail(
                    f"compute returned {rate!r}, outside of the declared {low:g} to {high:g} records/s",
                    f"compute{(now, *batch)}",
                )

    @check("RE-03", "must", change="return None for a batch without records before compute changes any attribute")
    def test_RE_03_empty_batch_changes_nothing(self, subject: RateEstimatorSubject) -> None:
        """A batch without records changes neither the rate nor the estimator's state.

        Purpose: an idle source says nothing about the capacity.
        Condition: for the additional batches compute returns None or the rate in force; all other answers are equal.
        """
        _changes_nothing(subject, lambda before, after: [(now, 0, 7, 0) for now in (before + 1, after - 1)])

    @check("RE-04", "must", change="return None for a processing delay of 0 before compute changes any attribute")
    def test_RE_04_zero_time_changes_nothing(self, subject: RateEstimatorSubject) -> None:
        """A batch that took 0 ms changes neither the rate nor the estimator's state.

        Purpose: a duration below the clock's resolution must cause neither an infinite rate nor a division by zero.
        Condition: the same as that of RE-03.
        """
        _changes_nothing(subject, lambda before, after: [(now, 500, 0, 0) for now in (before + 1, after - 1)])

    @check("RE-05", "must", change="return None for a batch whose end is not later than that of the last batch used")
    def test_RE_05_stale_time_ignored(self, subject: RateEstimatorSubject) -> None:
        """A batch that did not end after the last one changes neither the rate nor the estimator's state.

        Purpose: the wall clock can be set back, and events can be repeated. A time difference of 0 or less spoils every
            derivative.
        Condition: the same as that of RE-03.
        """
        _changes_nothing(
            subject,
            lambda before, _after: [(before, 900, 300, 0), (before - 3_600_000, 10, 900, 0)],
            places=(1, 2, 5, 9),
        )

    @check(
        "RE-06", "must", change="handle the first batch apart: it has no earlier time, rate or error to compare with"
    )
    def test_RE_06_first_update_defined(self, subject: RateEstimatorSubject) -> None:
        """Any first batch is handled, with or without an initial rate, and a rate follows within three batches.

        Purpose: an estimator has no earlier batch to compare with. Receivers are unlimited until the first rate.
        Condition: each answer is None or a rate. There is an initial rate, or a batch gives a rate: Spark's estimator
            needs two batches, and receivers are unlimited during every further one.
        """
        firsts = [(0, 10, 0), (10, 0, 0), (1, 1, 0), (10**9, 1, 0), (100, 10, DAY_MS)]
        for begins, first in product((False, True), firsts):
            estimator = subject.make()
            rates: list[float | None] = [500.0 if begins else estimator.initial_rate]
            if begins:
                estimator.begin_with(500.0)
            for number, batch in enumerate([(START_MS, *first), *plausible_batches(subject, 3)]):
                rates.append(subject.ask(estimator, batch))
                if rates[-1] is not None and not is_rate(rates[-1]):
                    fail(
                        f"for batch {number + 1} compute returned {rates[-1]!r}, neither None nor a rate",
                        f"compute{batch} after first {first}",
                    )
            if rates == [None] * len(rates):
                fail(
                    "compute gave no rate after three batches with records",
                    f"first batch {first}, then 3 plausible batches",
                )

    @check("RE-07", "must", change="raise ValueError in __init__ or in a validator of the options class")
    def test_RE_07_bad_parameters_refused(self, subject: RateEstimatorSubject) -> None:
        """An estimator refuses a batch interval of 0 or less, and NaN as an option, when it is made.

        Purpose: a wrong parameter must stop the program's start instead of causing wrong rates.
        Condition: each raises ``ValueError`` (``ConfigurationError`` is one).
        """
        for interval in (0, -1, -1000):
            try:
                subject.instance(interval)
            except ValueError:
                continue
            except Exception as error:
                fail(
                    f"make raised {type(error).__name__} instead of ValueError: {error}",
                    f"batch_interval_ms={interval}",
                    "raise ValueError",
                )
            fail(f"make returned an estimator for an interval of {interval} ms", f"batch_interval_ms={interval}")
        for option in _float_options(subject):
            try:
                _read_option(subject, option, math.nan)
            except ValueError:
                continue
            fail(f"the option {option!r} accepts NaN", f"{option}=nan")

    @check("RE-21", "must", change="bound results and state; use floats where products grow large")
    def test_RE_21_extremes_safe(self, subject: RateEstimatorSubject) -> None:
        """Extreme batches and intervals cause neither errors nor invalid rates, then or later.

        Purpose: a burst after an outage, or a paused virtual machine, must not spoil an estimator for good.
        Condition: each answer is None or a finite number above 0, and the plausible batches give at least one rate.
        """
        extremes = list(product((1, 10**12), (1, DAY_MS), (0, DAY_MS)))
        for interval in (1, 1000, DAY_MS):
            estimator, now = subject.make(interval), START_MS
            for _ in range(64):
                batch = subject.rng.choice(extremes)
                now += subject.rng.choice((1, interval, DAY_MS))
                _ask_for_rate(subject, estimator, (now, *batch), f"interval {interval} ms")
            answers = [
                _ask_for_rate(subject, estimator, (now + number * 1000, 500, 400, 0), "after extreme batches")
                for number in range(1, 21)
            ]
            if answers == [None] * len(answers):
                fail("compute gave no rate for 20 plausible batches after extreme ones", f"interval {interval} ms")

    @check("RE-24", "may", change="set self.reason to one line of text in every call of compute")
    def test_RE_24_explains_itself(self, subject: RateEstimatorSubject) -> None:
        """An estimator gives the reason of its last answer.

        Purpose: logs and the dashboard show why a rate was chosen.
        Condition: ``reason`` is one line of text, 1 to 300 characters long.
        """
        estimator = subject.make()
        for batch in [*plausible_batches(subject, 12), (START_MS + 20_000, 0, 7, 0)]:
            subject.ask(estimator, batch)
            reason = estimator.reason
            if not isinstance(reason, str) or not 1 <= len(reason) <= 300 or "\n" in reason:
                fail(f"reason is {reason!r}, not one line of 1 to 300 characters", f"compute{batch}")


def _changes_nothing(
    subject: RateEstimatorSubject, odd: Callable[[int, int], list[Batch]], places: Sequence[int] = (0, 1, 2, 5, 9)
) -> None:
    """Insert batches at some places, and fail if they change anything.

    Args:
        subject: makes the two estimators.
        odd: makes the batches to insert from the end times of the batch before and of the next one.
        places: the numbers of the batches before which they are inserted.
    """
    batches = plausible_batches(subject, 12)
    plain, disturbed = subject.make(), subject.make()
    in_force = plain.initial_rate
    before = START_MS
    for number, batch in enumerate(batches):
        extras = odd(before, batch[0]) if number in places else []
        for extra in extras:
            answer = subject.ask(disturbed, extra)
            if answer is not None and answer != in_force:
                fail(
                    f"after {number} batches a batch that must be ignored changed the rate from {in_force} to {answer}",
                    f"compute{extra}",
                )
        expected, seen = subject.ask(plain, batch), subject.ask(disturbed, batch)
        if expected != seen:
            fail(
                f"for batch {number + 1} compute returned {seen} after a batch that must be ignored, "
                f"{expected} without it",
                f"compute{(extras or [batch])[0]}",
            )
        in_force = expected if expected is not None else in_force
        before = batch[0]


def _float_options(subject: RateEstimatorSubject) -> Iterator[str]:
    if not subject.suite.name:
        return
    options = Plugins().spec(HOOKS[subject.suite.kind], subject.suite.name).options
    if options is None:
        return
    hints = get_type_hints(options)
    for field in attrs.fields(options):
        if field.init and float in (hints.get(field.name), *get_args(hints.get(field.name))):
            yield field.alias or field.name


def _read_option(subject: RateEstimatorSubject, name: str, value: float) -> None:
    spec = Plugins().spec(HOOKS[subject.suite.kind], subject.suite.name)
    spec.read_options({**subject.suite.options, name: value})


def _ask_for_rate(subject: RateEstimatorSubject, estimator: RateEstimator, batch: Batch, when: str) -> float | None:
    rate = subject.ask(estimator, batch)
    if rate is not None and not is_rate(rate):
        fail(f"compute returned {rate!r}, which is neither None nor a finite number above 0", f"compute{batch}, {when}")
    return rate
