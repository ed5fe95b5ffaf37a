"""The estimator ``pid``: Spark's own, with the same results to the last bit.

It aims at batches that take the whole interval, has no notion of a fixed cost, and never goes below ``minRate``.
"""

from __future__ import annotations

from attrs import define, field, frozen

from penstock import RateEstimator
from penstock_rate.options import checked_interval_ms, not_negative, positive


@frozen
class PIDOptions:
    """Options of ``pid``, set by ``spark.streaming.backpressure.pid.<option>``. Names and defaults are Spark's."""

    proportional: float = field(
        default=1.0, validator=not_negative, metadata={"help": "weight of the error: rate less what was processed"}
    )
    integral: float = field(
        default=0.2,
        validator=not_negative,
        metadata={"help": "weight of what waits: the scheduling delay as records/s"},
    )
    derived: float = field(
        default=0.0, validator=not_negative, metadata={"help": "weight of the error's change; amplifies noise"}
    )
    minRate: float = field(default=100.0, validator=positive, metadata={"help": "records/s, the lowest estimate"})


@define
class PIDState:
    """The state of ``pid``.

    Attributes:
        time: end of the last batch that was used, ms; -1 before the first.
        rate: the last estimate, records/s.
        error: the last error, records/s.
    """

    time: int = -1
    rate: float = -1.0
    error: float = -1.0


class PIDRateEstimator(RateEstimator):
    """Estimates the rate from the last batch's processing rate, less a part of the waiting records.

    It ignores a batch that says nothing about the capacity. As in Spark it has no initial rate: receivers are unlimited
    until the second batch.

    Args:
        options: gains and lower bound.
        batch_interval_ms: must be above zero.

    Raises:
        ValueError: the batch interval is not above zero.
    """

    state: PIDState

    def __init__(self, options: PIDOptions, batch_interval_ms: int) -> None:
        self._options = options
        self._interval_ms = checked_interval_ms(batch_interval_ms)
        self.state = PIDState()
        self.reason = "no batch yet"

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        state, options = self.state, self._options
        if time <= state.time or numElements <= 0 or processingDelay <= 0:
            self.reason = "batch ignored: no records, no duration, or not later than the last"
            return None
        # Same order of operations as Spark, so that the results are equal to the last bit.
        processing_rate = numElements / processingDelay * 1000
        if state.time == -1:
            self.state = PIDState(time, processing_rate, 0.0)
            self.reason = f"first batch: {processing_rate:.6g}/s processed, nothing to compare with"
            return None
        error = state.rate - processing_rate
        waiting = schedulingDelay * processing_rate / self._interval_ms
        change = (error - state.error) / ((time - state.time) / 1000)
        wanted = state.rate - options.proportional * error - options.integral * waiting - options.derived * change
        rate = max(wanted, options.minRate)
        self.state = PIDState(time, rate, error)
        floor = ", raised to minRate" if wanted < options.minRate else ""
        self.reason = f"{processing_rate:.6g}/s processed, {waiting:.6g}/s waiting{floor}"
        return rate
