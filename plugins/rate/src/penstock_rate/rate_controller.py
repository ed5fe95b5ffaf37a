"""``RateController``: from what a batch took to what its receivers may store.

Owns one receiver stream's estimator and what it said lately. Never drops an event, never takes a batch that failed for
a fast one, never publishes what is no rate: the last good one stays. Runs on a listener thread of its own; ``history``
may be read from any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from attrs import frozen

from penstock import BatchCompleted, BatchInfo, RateEstimator, RateEstimatorSpec
from penstock.plugins.specs import read_options
from penstock.rate.guarded_estimator import GuardedEstimator, chosen_first_rate, guarded, make_estimator
from penstock.runtime.log import get_logger

if TYPE_CHECKING:
    from penstock import StreamingContext

log = get_logger("rate_controller")

_HISTORY = 100
_LOG_AGAIN_MS = 60_000


@frozen
class Estimate:
    """A rate that was published.

    Attributes:
        time: the end of the batch it is from, ms.
        rate: records/s.
        reason: in the estimator's words, empty when it gives none.
    """

    time: int
    rate: float
    reason: str


class RateController:
    """Listen to batches, publish rates.

    Args:
        stream_id: the receiver stream that is steered.
        estimator: says the rate.
        publish: is given stream id and rate, records/s.
        steered: all streams that are steered; they share what a batch takes.
    """

    never_drop = True

    def __init__(
        self,
        stream_id: int,
        estimator: RateEstimator | GuardedEstimator,
        publish: Callable[[int, float], None],
        steered: Collection[int] = (),
    ) -> None:
        self._stream_id, self._guarded, self._publish = stream_id, guarded(estimator), publish
        self._steered = frozenset({stream_id, *steered})
        self._history: tuple[Estimate, ...] = ()
        self._warned_at: int | None = None

    @property
    def estimator(self) -> RateEstimator:
        """The one that says the rate."""
        return self._guarded.estimator

    @property
    def refused(self) -> int:
        """How many answers were no rate: not a finite number above zero."""
        return self._guarded.refused

    @property
    def failed(self) -> int:
        """How many errors the estimator raised, and states there were that cannot be kept."""
        return self._guarded.failed

    def history(self) -> tuple[Estimate, ...]:
        """The last hundred rates that were published, the oldest first."""
        return self._history

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        """Estimate from a batch that succeeded and publish what comes out."""
        info = batchCompleted.batchInfo
        stream = info.streamIdToInputInfo.get(self._stream_id)
        start, end = info.processingStartTime, info.processingEndTime
        if start is None or end is None or stream is None or not info.succeeded:
            return
        records = stream.numRecords
        # From the nominal batch time: late generation is part of being late. A clock that was set back makes nobody
        # early.
        waited = max(start - info.batchTime, 0)
        rate = self._guarded.compute(end, records, self._attributed_ms(info, end - start), waited)
        if self._guarded.fault:
            self._warn(end)
        if rate is None:
            return
        # A batch without records says nothing against the rate.
        if records <= 0 and self._history and rate < self._history[-1].rate:
            return
        estimate = Estimate(end, rate, self._guarded.reason)
        self._history = (*self._history[1 - _HISTORY :], estimate)
        log.debug("rate estimated", stream_id=self._stream_id, rate=rate, records=records, reason=estimate.reason)
        self._publish(self._stream_id, rate)

    def _attributed_ms(self, info: BatchInfo, processing_ms: int) -> int:
        """This stream's part of what the batch took, as if an equal part of the interval were a whole one.

        In proportion to its records; all of it for a stream with more than an equal part of them. So streams that are
        held back become equal, and what one leaves unused is another's.
        """
        inputs = info.streamIdToInputInfo
        counts = {stream: max(inputs[stream].numRecords, 0) for stream in self._steered if stream in inputs}
        records, busy = sum(counts.values()), sum(count > 0 for count in counts.values())
        if records == 0:
            return processing_ms
        part = min(1.0, busy * counts[self._stream_id] / records)
        return max(round(processing_ms * part), min(processing_ms, 1))

    def _warn(self, time: int) -> None:
        """Log, but no more than once a minute of batch time."""
        if self._warned_at is None or abs(time - self._warned_at) >= _LOG_AGAIN_MS:
            self._warned_at = time
            log.warning(
                "the rate estimator is at fault: the last good rate stays, or the last good state",
                stream_id=self._stream_id,
                fault=self._guarded.fault,
                refused=self.refused,
                failed=self.failed,
            )


def controllers(context: StreamingContext) -> list[RateController]:
    """Make the controllers of a program, and publish what their estimators begin with.

    Raises:
        UnknownNameError: configuration names an estimator that nobody offers.
        ConfigurationError: an option of the estimator cannot be used.
        PluginError: what the estimator's factory makes is no estimator.
    """
    if not context.settings.backpressure_enabled:
        return []
    spec: RateEstimatorSpec = context.plugins.spec("rate_estimators", context.settings.rate_estimator)
    given = context.settings.with_prefix(f"spark.streaming.backpressure.{spec.name}.")
    streams = [stream_id for stream_id, _receiver in context.graph.receivers()]
    chosen = chosen_first_rate(context.settings)
    made = []
    for stream_id in streams:
        options = read_options("rate estimator", spec, given)
        estimator = make_estimator(spec, options, context.graph.batch_interval_ms)
        made.append(RateController(stream_id, estimator, context.set_rate, streams))
        kept = context.keep(f"rate {spec.name} {stream_id}", estimator.kept)
        # In a run that goes on the receiver has its rate already.
        if estimator.go_on_from(kept):
            continue
        if kept is not None:
            log.warning("the estimator begins anew: what was kept is not its", fault=estimator.fault)
        if chosen is not None:
            estimator.begin_with(chosen)
        elif (first := estimator.initial_rate) is not None:
            context.set_rate(stream_id, first)
    return made
