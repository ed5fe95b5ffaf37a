"""``RateController``: sets the rate limit of a receiver stream from the delays of its batches."""

from __future__ import annotations

from penstock import BatchCompleted, ListenerContext, RateEstimator
from penstock.spi import get_logger

log = get_logger("rate_controller")


class RateController:
    """Listens to completed batches and sets the rate of one receiver stream.

    Callbacks run on the listener's own thread.

    Args:
        context: sets the rate.
        stream_id: the receiver stream's id.
        estimator: estimates the rate.
    """

    never_drop = True

    def __init__(self, context: ListenerContext, stream_id: int, estimator: RateEstimator) -> None:
        self._context = context
        self._stream_id = stream_id
        self.estimator = estimator
        #: The last published rate, records/s; ``None`` before the first.
        self.last_rate: float | None = None

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        """Estimate from a batch that succeeded, and publish the rate."""
        info = batchCompleted.batchInfo
        stream = info.streamIdToInputInfo.get(self._stream_id)
        took = self._context.attributed_delay(self._stream_id, info)
        start, end = info.processingStartTime, info.processingEndTime
        if start is None or end is None or took is None or stream is None or not info.succeeded:
            return
        records = stream.numRecords
        # From the batch time, so that late generation counts as delay. ``max`` covers a clock that was set back.
        waited = max(start - info.batchTime, 0)
        rate = self.estimator.compute(end, records, took, waited)
        if rate is None:
            return
        # A batch without records says nothing about the capacity, so it does not lower the rate.
        if records <= 0 and self.last_rate is not None and rate < self.last_rate:
            return
        self.last_rate = rate
        log.debug(
            "rate estimated",
            stream_id=self._stream_id,
            batch_time=info.batchTime,
            rate=rate,
            records=records,
            reason=self.estimator.reason,
        )
        self._context.set_rate(self._stream_id, rate)


def controllers(context: ListenerContext) -> list[RateController]:
    """Create a controller for each receiver stream, and set the estimators' initial rates.

    Returns:
        The controllers; an empty list when backpressure is not enabled.

    Raises:
        UnknownNameError: configuration names an estimator that no plugin offers.
        ConfigurationError: an option of the estimator is invalid.
        PluginError: the estimator cannot be created.
    """
    rate_controllers = []
    for stream in context.receiver_streams:
        estimator = context.rate_estimator(stream.stream_id)
        if estimator is None:
            return []
        rate_controllers.append(RateController(context, stream.stream_id, estimator))
        first = estimator.initial_rate
        if first is not None and first != context.rate_limit(stream.stream_id):
            context.set_rate(stream.stream_id, first)
    return rate_controllers
