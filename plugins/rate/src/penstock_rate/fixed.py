"""The estimator ``fixed``: the same rate, whatever the batches take.

Owns one number. For sources whose capacity is known, and to see what estimation brings.
"""

from __future__ import annotations

import math

from attrs import Attribute, field, frozen


def _is_positive(_options: object, attribute: Attribute[float], value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{attribute.name} must be a finite number greater than zero, not {value!r}")


@frozen
class FixedOptions:
    """Options of ``fixed``, set by ``spark.streaming.backpressure.fixed.<option>``."""

    rate: float = field(validator=_is_positive, metadata={"help": "records/s of each receiver stream"})


class FixedRateEstimator:
    """Says one rate.

    Args:
        options: the rate.
        batch_interval_ms: not used; every estimator is given it.
    """

    def __init__(self, options: FixedOptions, batch_interval_ms: int) -> None:
        self._rate = options.rate

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        """The rate, records/s."""
        return self._rate
