"""The estimator ``pid``: Spark's own, number for number.

Owns the last rate, the last error and when they were. It aims at batches that take the whole interval, knows no fixed
cost, and never goes below ``minRate``. Reads no clock; runs on the thread of whoever calls it.
"""

from __future__ import annotations

from attrs import define, field, frozen

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
    """What ``pid`` remembers.

    Attributes:
        time: of the last batch that counted, ms; -1 before the first.
        rate: the last estimate, records/s.
        error: the last error, records/s.
    """

    time: int = -1
    rate: float = -1.0
    error: float = -1.0


class PIDRateEstimator:
    """Says the rate at which the last batch was processed, less a part of what waits.

    Args:
        options: gains and floor.
        batch_interval_ms: between two batches.

    Attributes:
        state: all that it remembers.
        reason: of the last call's answer, for people.
    """

    def __init__(self, options: PIDOptions, batch_interval_ms: int) -> None:
        self._options, self._interval_ms = options, checked_interval_ms(batch_interval_ms)
        self.state, self.reason = PIDState(), "no batch yet"

    @property
    def initial_rate(self) -> float | None:
        """The rate to begin with: none, as in Spark; restored from a checkpoint, it goes on where it was."""
        return None if self.state.time < 0 else max(self.state.rate, self._options.minRate)

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        """The rate, records/s; ``None`` for the first batch, and for one without records, duration or progress."""
        state, options = self.state, self._options
        if time <= state.time or numElements <= 0 or processingDelay <= 0:
            self.reason = "batch without use: its time is not later, or it has no records or no duration"
            return None
        # Spark's order of operations, that the last bits agree too.
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
