"""The estimator ``model``: learns the cost of a batch and aims at batches that take a share of the interval.

The rest of the interval is headroom, which grows with recent overruns. The estimator starts low and raises the rate in
bounded steps. It remembers its rates and so knows whether the rate or the input limited a batch; if the input did, it
hardly lowers the rate. While batches queue, it aims lower.
"""

from __future__ import annotations

import math

from attrs import Attribute, evolve, field, frozen
from attrs.validators import optional

from penstock import RateEstimator
from penstock_rate.batch_cost import BatchCost
from penstock_rate.options import checked_interval_ms, positive

# The rate was the limit if a batch has at least this share of the records that the rate admitted.
_BINDING = 0.9
# A batch has at most this multiple of the admitted records: unused permits remain valid for a while.
_MOST_ADMITTED = 4.0
# Growth factor of the rate per step: minimum and maximum while the rate is the limit, and the factor while the input is
# the limit. Between minimum and maximum, the step assumes a cost that grows with the square of the records.
_GROWTH, _MOST_GROWTH, _EXPLORATION = 2.5, 10.0, 1.1
# Minimum and maximum share of the interval if no option sets it, and the headroom as a multiple of the excess.
_LEAST_SHARE, _MOST_SHARE, _HEADROOM = 0.85, 0.95, 1.3
# Decay of the excess with each batch, and its maximum, assumed before the first batch.
_EXCESS_LASTS, _MOST_EXCESS = 0.95, 0.2
# Decay of the shortfall with each batch.
_SHORTFALL_LASTS = 0.8
# However high the fixed cost is, the records get at least this part of the remaining interval, relative to the share,
# and at least this part of the whole interval.
_PART_OF_THE_REST, _LEAST_ROOM = 0.9, 0.05
# Intervals in which a delay is reduced to zero, and the minimum part of the time for records meanwhile.
_DRAIN_INTERVALS, _LEAST_AIM = 4.0, 0.1
# Maximum number of queued batches to consider.
_WAITING = 20
# Records of the first batches, unless the option sets the first rate.
_FIRST_RECORDS = 2
# Lower bound from the last batch, which is measured and not fitted: the rate is at least this part of the last batch's
# rate, scaled to the target time.
_LEAST_OF_PROPORTION = 0.25
# Decay of the proven number of records with each batch, because the capacity may have fallen since.
_PROVEN_LASTS = 0.9
# Maximum number of remembered rates; queued batches were admitted at earlier rates.
_RATES = 128
_HIGHEST = 1e15


def _is_share(_options: object, attribute: Attribute[float], value: float) -> None:
    if not 0 < value <= 1:
        raise ValueError(f"{attribute.name}={value!r}: must be greater than 0 and at most 1")


@frozen
class ModelOptions:
    """Options of ``model``, set by ``spark.streaming.backpressure.model.<option>``."""

    share: float | None = field(
        default=None,
        validator=optional(_is_share),
        metadata={"help": "share of the interval that a batch is to take; by default 0.85 to 0.95, less with noise"},
    )
    initial_rate: float | None = field(
        default=None,
        validator=optional(positive),
        metadata={"help": "records/s; by default 2 records an interval, at least doubled while batches allow it"},
    )
    min_rate: float = field(
        default=0.001, validator=positive, metadata={"help": "records/s, the lowest estimate; may be below 1"}
    )


@frozen
class ModelState:
    """The state of ``model``.

    Attributes:
        rate: the last estimate, records/s.
        first_rate: records/s until the first estimate.
        time: end of the last batch that was used, ms; ``None`` before the first.
        cost: the learned cost.
        proven: decaying maximum of the records per interval that a batch has proven to be possible.
        excess: decaying maximum by which batches exceeded, or may exceed, the expected time of the admitted records,
            as a share of that time.
        shortfall: decaying sum of the records that batches had less than admitted, as a share of the admitted records;
            negative after batches with more.
        rates: the last estimates with their times, oldest first.
    """

    rate: float
    first_rate: float
    time: int | None = None
    cost: BatchCost = field(factory=BatchCost)
    proven: float = 0.0
    excess: float = _MOST_EXCESS
    shortfall: float = 0.0
    rates: tuple[tuple[int, float], ...] = ()

    def admitted(self, batch_time: int, interval: int) -> float:
        """Return the number of records that the rates admitted into a batch."""
        until, since, admitted = batch_time, batch_time - interval, 0.0
        for start, rate in reversed(self.rates):
            if start < until:
                admitted += rate * (until - max(start, since)) / 1000
                until = max(start, since)
            if until <= since:
                return admitted
        first = self.first_rate if len(self.rates) < _RATES else self.rates[0][1]
        return admitted + first * (until - since) / 1000


@frozen
class Batch:
    """A completed batch.

    Attributes:
        time: when its processing ended, ms.
        records: number of its records.
        took_ms: processing delay.
        waited_ms: scheduling delay.
        admitted: records that the rates of that time admitted into it.
    """

    time: int
    records: int
    took_ms: int
    waited_ms: int
    admitted: float


@frozen
class Aim:
    """The target time of a batch.

    Attributes:
        total_ms: the whole time.
        records_ms: the part of it for records; the remaining time is the fixed cost.
        late_ms: expected delay of the first batch that a new rate affects.
    """

    total_ms: float
    records_ms: float
    late_ms: float


def observe(state: ModelState, batch: Batch, interval: int) -> tuple[ModelState, bool]:
    """Learn from a batch.

    Returns:
        The updated state, and whether the cost of batches has changed.
    """
    expected_ms = state.cost.predict_ms(min(batch.records, batch.admitted))
    cost, changed = state.cost.learn(batch.records, batch.took_ms)
    excess, shortfall = state.excess, state.shortfall
    if expected_ms and not changed and not cost.outliers:
        # The limiter keeps unused permits, so the next batch may exceed its admitted records by that number. A block
        # that falls into the next batch leaves no permits: one batch's surplus offsets the other's shortfall.
        missing = 1 - batch.records / batch.admitted
        shortfall = min(max(_SHORTFALL_LASTS * shortfall + missing, -_MOST_EXCESS), _MOST_EXCESS)
        latest = max(batch.took_ms / expected_ms - 1, min(missing, shortfall))
        excess = max(_EXCESS_LASTS * excess, min(latest, _MOST_EXCESS))
    possible = batch.records * interval / max(batch.took_ms, interval)
    proven = possible if changed else max(_PROVEN_LASTS * state.proven, possible)
    return evolve(state, cost=cost, excess=excess, shortfall=shortfall, proven=proven), changed


def share_of(state: ModelState, configured: float | None) -> float:
    """Return the target share of the interval: the configured one, or by default less with noise."""
    return configured or min(max(1 / (1 + _HEADROOM * state.excess), _LEAST_SHARE), _MOST_SHARE)


def aim(state: ModelState, batch: Batch, share: float, interval: int) -> Aim:
    """Choose the target time of a batch, which is less than the share while batches are late."""
    fixed_ms = state.cost.fixed_ms
    rest_ms = interval - fixed_ms
    # The share less the fixed cost; or, if that is little, a part of the interval less the fixed cost.
    room_ms = max(share * interval - fixed_ms, _PART_OF_THE_REST * share * rest_ms, _LEAST_ROOM * interval)
    late_ms = _expected_delay_ms(state, batch, interval)
    records_ms = max(room_ms - late_ms / _DRAIN_INTERVALS, _LEAST_AIM * room_ms)
    return Aim(fixed_ms + records_ms, records_ms, late_ms)


def _expected_delay_ms(state: ModelState, batch: Batch, interval: int) -> float:
    """Return the expected delay of the first batch that a new rate affects: the first after the queued ones."""
    cost, filled = state.cost, min(batch.records / batch.admitted, 1.0)
    # An outlier may be the first of several slow batches.
    slowdown = batch.took_ms / cost.predict_ms(batch.records) if cost.outliers > 0 else 1.0
    batch_time = batch.time - batch.took_ms - batch.waited_ms
    late_ms = max(float(batch.waited_ms + batch.took_ms - interval), 0.0)
    for number in range(1, min((batch.time - batch_time) // interval, _WAITING) + 1):
        records = filled * state.admitted(batch_time + number * interval, interval)
        late_ms = max(late_ms + slowdown * cost.predict_ms(records) - interval, 0.0)
    return late_ms


def limit(state: ModelState, batch: Batch, target: Aim, kept: float, interval: int) -> tuple[float, str]:
    """Turn a target time into a rate within a safe step.

    Args:
        state: the state after the batch.
        batch: the last batch.
        target: the target time of a batch.
        kept: the last rate, adjusted to the current share; the lower bound while the input is the limit.
        interval: the batch interval, ms.

    Returns:
        The rate, records/s, and why it is less than the target time allows; empty if it is not.
    """
    proportional = _LEAST_OF_PROPORTION * batch.records * target.total_ms / batch.took_ms
    fits = max(target.records_ms / state.cost.record_ms, proportional)
    spent_ms = max(batch.took_ms - state.cost.fixed_ms, _LEAST_ROOM * batch.took_ms)
    growth = min(max(math.sqrt(target.records_ms / spent_ms), _GROWTH), _MOST_GROWTH)
    wanted, safe = fits * 1000 / interval, growth * state.proven * 1000 / interval
    if batch.records >= _BINDING * batch.admitted or batch.took_ms > target.total_ms:
        return min(wanted, safe), ", limited to a safe step" if wanted > safe else ""
    return max(kept, min(wanted, safe, _EXPLORATION * state.rate)), "; the input was the limit"


class ModelRateEstimator(RateEstimator):
    """Estimates the rate at which a batch takes the target share of the interval.

    Args:
        options: share, first rate and lower bound.
        batch_interval_ms: must be above zero.

    Raises:
        ValueError: the batch interval is not above zero.
    """

    state: ModelState
    initial_rate: float

    def __init__(self, options: ModelOptions, batch_interval_ms: int) -> None:
        self._options = options
        self._interval_ms = checked_interval_ms(batch_interval_ms)
        first = options.initial_rate or _FIRST_RECORDS * 1000 / batch_interval_ms
        self.initial_rate = max(first, options.min_rate)
        self.state = ModelState(self.initial_rate, self.initial_rate)
        self.reason = "no batch yet"

    def begin_with(self, rate: float) -> None:
        first = self._bounded(rate)
        self.state = evolve(self.state, rate=first, first_rate=first)

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        before, interval = self.state, self._interval_ms
        if numElements <= 0 or processingDelay <= 0 or (before.time is not None and time <= before.time):
            self.reason = "batch ignored: no records, no duration, or not later than the last"
            return None
        waited_ms = max(schedulingDelay, 0)
        admitted = before.admitted(time - processingDelay - waited_ms, interval)
        # Limit an implausible count to a multiple of the admitted records.
        records = max(min(numElements, int(_MOST_ADMITTED * admitted)), 1)
        batch = Batch(time, records, processingDelay, waited_ms, admitted)
        state, changed = observe(before, batch, interval)
        share = share_of(state, self._options.share)
        target = aim(state, batch, share, interval)
        kept = before.rate * share / share_of(before, self._options.share)
        wanted, limited = limit(state, batch, target, kept, interval)
        rate = self._bounded(wanted)
        self.state = evolve(state, time=time, rate=rate, rates=(*state.rates, (time, rate))[-_RATES:])
        self.reason = (
            f"{state.cost.fixed_ms:.4g} ms and {state.cost.record_ms:.4g} ms a record: aims at {target.total_ms:.4g} ms"
            + (f", batches are {target.late_ms:.4g} ms late" if target.late_ms else "")
            + limited
            + ("; the cost has changed" if changed else "")
            + ("; raised to min_rate" if wanted < self._options.min_rate else "")
        )
        return rate

    def _bounded(self, rate: float) -> float:
        return max(min(rate, _HIGHEST), self._options.min_rate)
