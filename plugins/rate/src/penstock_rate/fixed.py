"""The estimator ``fixed``: one constant rate, for sources of known capacity and for comparison."""

from __future__ import annotations

from attrs import field, frozen

from penstock import RateEstimator
from penstock_rate.options import checked_interval_ms, positive


@frozen
class FixedOptions:
    """Options of ``fixed``, set by ``spark.streaming.backpressure.fixed.<option>``."""

    rate: float = field(validator=positive, metadata={"help": "records/s of each receiver stream"})


class FixedRateEstimator(RateEstimator):
    """Always answers with the configured rate.

    Args:
        options: the rate.
        batch_interval_ms: must be above zero.

    Raises:
        ValueError: the batch interval is not above zero.
    """

    reason = "as configured"

    def __init__(self, options: FixedOptions, batch_interval_ms: int) -> None:
        checked_interval_ms(batch_interval_ms)
        self._rate = options.rate
        self.initial_rate = options.rate

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        return self._rate
