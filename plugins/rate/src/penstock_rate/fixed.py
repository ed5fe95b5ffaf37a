"""The estimator ``fixed``: the same rate, whatever the batches take.

Owns one number. For sources whose capacity is known, and to see what estimation brings. Reads no clock; runs on the
thread of whoever calls it.
"""

from __future__ import annotations

from attrs import field, frozen

from penstock_rate.options import positive


@frozen
class FixedOptions:
    """Options of ``fixed``, set by ``spark.streaming.backpressure.fixed.<option>``."""

    rate: float = field(validator=positive, metadata={"help": "records/s of each receiver stream"})


class FixedRateEstimator:
    """Says one rate.

    Args:
        options: the rate.
        batch_interval_ms: not used; every estimator is given it.

    Attributes:
        initial_rate: the rate, in force before the first batch.
        reason: for people.
    """

    def __init__(self, options: FixedOptions, batch_interval_ms: int) -> None:
        self.initial_rate, self.reason = options.rate, "as configured"

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        """The rate, records/s."""
        return self.initial_rate
