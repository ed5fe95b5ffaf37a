"""The estimator ``model``: learns the cost of a batch and aims at batches that take a share of the interval.

The rest is headroom: the more batches lately exceeded the expected time, the more. The estimator starts low and raises
the rate in bounded steps. From the rates it gave it knows whether the rate or the input limited a batch; in the latter
case it hardly lowers the rate. While batches queue it aims lower.
"""

from __future__ import annotations

import math

from attrs import Attribute, Factory, define, field, frozen
from attrs.validators import optional

from penstock import RateEstimator
from penstock_rate.batch_cost import BatchCost
from penstock_rate.options import checked_interval_ms, positive

# The rate was the limit when a batch has this share of the records that it admitted.
_BINDING = 0.9
# A batch has at most this many times the admitted records: unused permits are kept for a while.
_MOST_ADMITTED = 4.0
# Growth of the rate: minimum and maximum step while the rate is the limit (in between, as far as a cost that grows with
# the square of the records would fit), and the step while the input is the limit.
_GROWTH, _MOST_GROWTH, _EXPLORATION = 2.5, 10.0, 1.1
# Minimum and maximum of the share if no option sets it, and the headroom as a multiple of the excess.
_LEAST_SHARE, _MOST_SHARE, _HEADROOM = 0.85, 0.95, 1.3
# Decay of the excess with each batch, and its maximum, assumed before the first batch.
_EXCESS_LASTS, _MOST_EXCESS = 0.95, 0.2
# Decay with each batch of the sum that tells a lack of records from blocks that fall into the next batch.
_LACK_LASTS = 0.8
# However high the fixed cost is, records get at least this part of the rest of the interval, relative to the share, and
# at least this part of the interval.
_PART_OF_THE_REST, _LEAST_ROOM = 0.9, 0.05
# A delay is made up for in this many intervals, by batches that use at least this part of the time for records.
_DRAIN_INTERVALS, _LEAST_AIM = 4.0, 0.1
# Maximum queued batches that are considered.
_WAITING = 20
# Records of the first batches, unless the option says otherwise.
_FIRST_RECORDS = 2
# The last batch is measured, the fitted line is not: the rate is at least this part of the last batch's, in proportion
# to the time aimed at.
_LEAST_OF_PROPORTION = 0.25
# Decay of the maximum that batches have shown to be possible: the capacity may have fallen since.
_SHOWN_LASTS = 0.9
# Rates that are remembered for queued batches.
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


@define
class ModelState:
    """The state of ``model``.

    Attributes:
        rate: the last estimate, records/s.
        time: end of the last batch that was used, ms; ``None`` before the first.
        cost: the learned cost.
        shown: the decaying maximum that a batch has shown to be possible, records an interval.
        excess: the decaying maximum by which batches exceeded, or may exceed, the expected time of the admitted
            records, relative to it.
        lack: decaying sum of the records that batches had less than was admitted, relative to that; below zero after
            batches that had more.
        rates: the last estimates with their times, oldest first.
    """

    rate: float
    time: int | None = None
    cost: BatchCost = Factory(BatchCost)
    shown: float = 0.0
    excess: float = _MOST_EXCESS
    lack: float = 0.0
    rates: list[tuple[int, float]] = Factory(list)


class ModelRateEstimator(RateEstimator):
    """Answers with the rate at which a batch takes the wanted share of the interval.

    Args:
        options: share, first rate and lower bound.
        batch_interval_ms: must be above zero.

    Raises:
        ValueError: it is not.
    """

    state: ModelState
    initial_rate: float

    def __init__(self, options: ModelOptions, batch_interval_ms: int) -> None:
        self._options, self._interval_ms = options, checked_interval_ms(batch_interval_ms)
        first = options.initial_rate or _FIRST_RECORDS * 1000 / batch_interval_ms
        self._first_rate = self.initial_rate = max(first, options.min_rate)
        self.state, self.reason = ModelState(self._first_rate), "no batch yet"

    def begin_with(self, rate: float) -> None:
        """Start from the program's first rate, records/s."""
        self._first_rate = self.state.rate = max(min(rate, _HIGHEST), self._options.min_rate)

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        """Return the rate, records/s; ``None`` for a batch without records or duration, or not later than the last."""
        state, interval = self.state, self._interval_ms
        if numElements <= 0 or processingDelay <= 0 or (state.time is not None and time <= state.time):
            self.reason = "batch ignored: no records, no duration, or not later than the last"
            return None
        waited = max(schedulingDelay, 0)
        admitted = self._admitted(time - processingDelay - waited)
        # An implausible count is limited to what was admitted.
        numElements = max(min(numElements, int(_MOST_ADMITTED * admitted)), 1)
        share, expected_ms = self._share(), state.cost.predict_ms(min(numElements, admitted))
        changed = state.cost.learn(numElements, processingDelay)
        if expected_ms and not changed and not state.cost.outstanding:
            # The limiter keeps permits that the input has not used: the next batch may have that many more records. A
            # block that falls into the next batch leaves none: the surplus of one batch offsets the lack of another.
            lack = 1 - numElements / admitted
            state.lack = min(max(_LACK_LASTS * state.lack + lack, -_MOST_EXCESS), _MOST_EXCESS)
            excess = max(processingDelay / expected_ms - 1, min(lack, state.lack))
            state.excess = max(_EXCESS_LASTS * state.excess, min(excess, _MOST_EXCESS))
        possible = numElements * interval / max(processingDelay, interval)
        state.shown = min(max(_SHOWN_LASTS * state.shown, possible), possible if changed else math.inf)

        # An outlier may be the first of several slow batches.
        fear = processingDelay / state.cost.predict_ms(numElements) if state.cost.outstanding > 0 else 1.0
        late_ms = self._expected_delay(time, processingDelay, waited, min(numElements / admitted, 1.0), fear)
        room_ms = self._room()
        used_ms = max(room_ms - late_ms / _DRAIN_INTERVALS, _LEAST_AIM * room_ms)
        aim_ms = state.cost.fixed_ms + used_ms
        why = f"aims at {aim_ms:.4g} ms" + (f", batches are {late_ms:.4g} ms late" if late_ms else "")
        fits = max(used_ms / state.cost.record_ms, _LEAST_OF_PROPORTION * numElements * aim_ms / processingDelay)
        spent_ms = max(processingDelay - state.cost.fixed_ms, _LEAST_ROOM * processingDelay)
        growth = min(max(math.sqrt(used_ms / spent_ms), _GROWTH), _MOST_GROWTH)
        wanted, most = fits * 1000 / interval, growth * state.shown * 1000 / interval
        if numElements >= _BINDING * admitted or processingDelay > aim_ms:
            if wanted > most:
                why = f"{why}, limited to a safe step"
            rate = min(wanted, most)
        else:
            kept = state.rate * self._share() / share
            rate = max(kept, min(wanted, most, _EXPLORATION * state.rate))
            why = f"{why}; the input was the limit"
        if changed:
            why = f"{why}; the cost has changed"
        return self._decide(time, rate, why)

    def _decide(self, time: int, rate: float, why: str) -> float:
        state = self.state
        if rate < self._options.min_rate:
            why = f"{why}; raised to min_rate"
        state.time, state.rate = time, max(min(rate, _HIGHEST), self._options.min_rate)
        state.rates.append((time, state.rate))
        del state.rates[:-_RATES]
        cost = state.cost
        self.reason = f"{cost.fixed_ms:.4g} ms and {cost.record_ms:.4g} ms a record: {why}"
        return state.rate

    def _admitted(self, until: int) -> float:
        """Records that the rates admitted into the batch of a time."""
        since, admitted = until - self._interval_ms, 0.0
        for began, rate in reversed(self.state.rates):
            if began < until:
                admitted += rate * (until - max(began, since)) / 1000
                until = max(began, since)
            if until <= since:
                return admitted
        first = self._first_rate if len(self.state.rates) < _RATES else self.state.rates[0][1]
        return admitted + first * (until - since) / 1000

    def _share(self) -> float:
        """The share of the interval that a batch is to take."""
        chosen = self._options.share
        return chosen or min(max(1 / (1 + _HEADROOM * self.state.excess), _LEAST_SHARE), _MOST_SHARE)

    def _room(self) -> float:
        """The part of a batch's time that is for its records.

        It is what the fixed cost leaves of the share, or, if that is little, a part of what it leaves of the interval.
        """
        interval, fixed_ms, share = self._interval_ms, self.state.cost.fixed_ms, self._share()
        rest_ms = interval - fixed_ms
        return max(share * interval - fixed_ms, _PART_OF_THE_REST * share * rest_ms, _LEAST_ROOM * interval)

    def _expected_delay(self, time: int, took_ms: int, waited_ms: int, filled: float, fear: float) -> float:
        """The expected delay of the first batch that a new rate affects, after the queued ones."""
        interval, batch_time = self._interval_ms, time - took_ms - waited_ms
        late_ms = max(float(waited_ms + took_ms - interval), 0.0)
        for number in range(1, min((time - batch_time) // interval, _WAITING) + 1):
            records = filled * self._admitted(batch_time + number * interval)
            late_ms = max(late_ms + fear * self.state.cost.predict_ms(records) - interval, 0.0)
        return late_ms
