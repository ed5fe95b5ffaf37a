"""``RateController``: from what a batch took to what its receivers may store.

Owns one receiver stream's estimator. Never drops an event, never sees a failed batch as a fast one. Runs on its own
listener thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock import BatchCompleted, RateEstimator, StreamInputInfo
from penstock.conf import BACKPRESSURE_ENABLED, RATE_ESTIMATOR
from penstock.log import get_logger
from penstock.specs import read_options

if TYPE_CHECKING:
    from penstock import StreamingContext

log = get_logger("rate_controller")


class RateController:
    """Listen to batches, publish rates.

    Args:
        stream_id: the receiver stream that is steered.
        estimator: says the rate.
        publish: is given stream id and rate, records/s.
    """

    never_drop = True

    def __init__(self, stream_id: int, estimator: RateEstimator, publish: Callable[[int, float], None]) -> None:
        self._stream_id, self._estimator, self._publish = stream_id, estimator, publish

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        """Estimate from a batch that succeeded and publish what comes out."""
        info = batchCompleted.batchInfo
        if any(operation.failureReason is not None for operation in info.outputOperationInfos.values()):
            return
        end, processing = info.processingEndTime, info.processingDelay
        stream: StreamInputInfo | None = info.streamIdToInputInfo.get(self._stream_id)
        if end is None or processing is None or info.processingStartTime is None or stream is None:
            return
        # From the nominal batch time: late generation is part of being late.
        scheduling = info.processingStartTime - info.batchTime
        rate = self._estimator.compute(end, stream.numRecords, processing, scheduling)
        if rate is None:
            return
        if not (math.isfinite(rate) and rate > 0):
            log.warning("estimate refused, the last rate stays", stream_id=self._stream_id, estimate=rate)
            return
        log.debug("rate estimated", stream_id=self._stream_id, rate=rate, records=stream.numRecords)
        self._publish(self._stream_id, rate)


def controllers(context: StreamingContext) -> list[RateController]:
    """Make the controllers of a program.

    Raises:
        UnknownNameError: configuration names an estimator that nobody offers.
        ConfigurationError: an option of the estimator cannot be used.
    """
    if not context.settings[BACKPRESSURE_ENABLED]:
        return []
    spec = context.plugins.spec("rate_estimators", context.settings[RATE_ESTIMATOR])
    given = context.settings.under(f"spark.streaming.backpressure.{spec.name}.")
    interval_ms = context.graph.batch_interval_ms

    def controller(stream_id: int) -> RateController:
        options: Any = read_options("rate estimator", spec, given)
        return RateController(stream_id, spec.factory(options, interval_ms), context.set_rate)

    return [controller(stream_id) for stream_id, _receiver in context.graph.receivers()]
