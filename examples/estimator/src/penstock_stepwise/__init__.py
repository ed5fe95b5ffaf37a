"""The rate estimator ``stepwise``: a step up after each batch in time, a larger step down after a late one."""

import attrs

from penstock import RateEstimator, RateEstimatorSpec, hookimpl


@attrs.frozen
class StepwiseOptions:
    """Options of ``stepwise``."""

    up: float = attrs.field(
        default=0.1,
        validator=attrs.validators.gt(0),
        metadata={"help": "share added to the rate after a batch in time"},
    )
    down: float = attrs.field(
        default=0.2,
        validator=attrs.validators.and_(attrs.validators.gt(0), attrs.validators.lt(1)),
        metadata={"help": "share taken from the rate after a late batch"},
    )


@attrs.define
class StepwiseState:
    """What ``compute`` remembers; saved in every checkpoint.

    Attributes:
        time: end of the last batch, ms since the epoch.
        rate: records/s now in force.
    """

    time: int = -1
    rate: float = 100.0


class StepwiseEstimator(RateEstimator):
    """Counts a batch as in time if its processing took at most nine tenths of the batch interval."""

    state: StepwiseState
    initial_rate = 100.0

    def __init__(self, options: StepwiseOptions, batch_interval_ms: int) -> None:
        if batch_interval_ms <= 0:
            raise ValueError(f"batch_interval_ms={batch_interval_ms}: must be above 0")
        self.options = options
        self.interval_ms = batch_interval_ms
        self.state = StepwiseState()
        self.reason = "no batch yet"

    def begin_with(self, rate: float) -> None:
        """Continue from the program's first rate."""
        self.state.rate = rate

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        """Estimate the rate from a completed batch."""
        if time <= self.state.time or numElements <= 0 or processingDelay <= 0:
            self.reason = "batch ignored"
            return None
        rate = self.state.rate
        if processingDelay > 0.9 * self.interval_ms:
            rate, self.reason = max(rate * (1 - self.options.down), 1.0), f"late: {processingDelay} ms"
        elif schedulingDelay > self.interval_ms:
            self.reason = f"in time, and a queue of {schedulingDelay} ms to drain"
        elif numElements * 1000 < rate * self.interval_ms / 2:
            self.reason = "in time, and the source offers less than half the rate"
        else:
            rate, self.reason = min(rate * (1 + self.options.up), 1e15), f"in time: {processingDelay} ms"
        self.state.time, self.state.rate = time, rate
        return rate


@hookimpl
def rate_estimators() -> list[RateEstimatorSpec]:
    """Offer the estimator."""
    return [RateEstimatorSpec("stepwise", StepwiseEstimator, StepwiseOptions, "up and down in steps")]
