"""``RateController``: from what a batch took to what its receivers may store.

Owns one receiver stream's estimator and what it said lately. Never drops an event, never takes a batch that failed for
a fast one, never publishes what is no rate: the last good one stays. Runs on a listener thread of its own; ``history``
may be read from any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import attrs
import cattrs
from attrs import frozen

from penstock import BatchCompleted, BatchInfo, RateEstimator, RateEstimatorSpec
from penstock.conf import BACKPRESSURE_ENABLED, RATE_ESTIMATOR
from penstock.errors import ConfigurationError, PluginError
from penstock.log import get_logger
from penstock.specs import read_options

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

    Attributes:
        estimator: see there.
        refused: answers that were no rate: not a finite number above zero.
        failed: errors that the estimator raised.
    """

    never_drop = True

    def __init__(
        self,
        stream_id: int,
        estimator: RateEstimator,
        publish: Callable[[int, float], None],
        steered: Collection[int] = (),
    ) -> None:
        self._stream_id, self.estimator, self._publish = stream_id, estimator, publish
        self._steered = frozenset({stream_id, *steered})
        self._history: tuple[Estimate, ...] = ()
        self._warned_at: int | None = None
        self._kept: Any = None
        self.refused = self.failed = 0

    def history(self) -> tuple[Estimate, ...]:
        """The last hundred rates that were published, the oldest first."""
        return self._history

    def kept(self) -> Any:
        """What the estimator remembers, as JSON values; ``None`` when it has no ``state`` of attrs. On any thread."""
        return self._kept

    def go_on_from(self, kept: Any) -> bool:
        """Have the estimator remember what another did; say whether it does. Before the first batch."""
        state = getattr(self.estimator, "state", None)
        if kept is None or not attrs.has(type(state)):
            return False
        try:
            self.estimator.state = cattrs.structure(kept, type(state))  # type: ignore[attr-defined]
        except Exception as error:
            log.warning("the estimator begins anew: what was kept is not its", reason=repr(error))
            return False
        self._kept = kept
        return True

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        """Estimate from a batch that succeeded and publish what comes out."""
        info = batchCompleted.batchInfo
        stream = info.streamIdToInputInfo.get(self._stream_id)
        start, end = info.processingStartTime, info.processingEndTime
        if start is None or end is None or stream is None or not info.succeeded:
            return
        records = stream.numRecords
        try:
            # The scheduling delay is from the nominal batch time: late generation is part of being late.
            answer = self.estimator.compute(
                end, records, self._attributed_ms(info, end - start), start - info.batchTime
            )
        except Exception as error:
            self.failed += 1
            self._warn(end, "the estimator failed, the last rate stays", error=repr(error), failed=self.failed)
            return
        if attrs.has(type(state := getattr(self.estimator, "state", None))):
            self._kept = cattrs.unstructure(state)
        if answer is None:
            return
        rate = _rate(answer)
        if rate is None:
            self.refused += 1
            self._warn(end, "no rate, the last one stays", estimate=repr(answer), refused=self.refused)
            return
        # A batch without records says nothing against the rate.
        if records <= 0 and self._history and rate < self._history[-1].rate:
            return
        estimate = Estimate(end, rate, str(getattr(self.estimator, "reason", "")))
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

    def _warn(self, time: int, event: str, **said: Any) -> None:
        """Log, but no more than once a minute of batch time."""
        if self._warned_at is None or abs(time - self._warned_at) >= _LOG_AGAIN_MS:
            self._warned_at = time
            log.warning(event, stream_id=self._stream_id, **said)


def _rate(answer: Any) -> float | None:
    try:
        rate = float(answer)
    except (TypeError, ValueError, OverflowError):
        return None
    return rate if math.isfinite(rate) and rate > 0 else None


def controllers(context: StreamingContext) -> list[RateController]:
    """Make the controllers of a program, and publish what their estimators begin with.

    Raises:
        UnknownNameError: configuration names an estimator that nobody offers.
        ConfigurationError: an option of the estimator cannot be used.
        PluginError: what the estimator's factory makes is no estimator.
    """
    if not context.settings[BACKPRESSURE_ENABLED]:
        return []
    spec: RateEstimatorSpec = context.plugins.spec("rate_estimators", context.settings[RATE_ESTIMATOR])
    given = context.settings.under(f"spark.streaming.backpressure.{spec.name}.")
    streams = [stream_id for stream_id, _receiver in context.graph.receivers()]
    made = []
    for stream_id in streams:
        estimator = _estimator(spec, read_options("rate estimator", spec, given), context.graph.batch_interval_ms)
        controller = RateController(stream_id, estimator, context.set_rate, streams)
        made.append(controller)
        # In a run that goes on the receiver has its rate already.
        if controller.go_on_from(context.keep(f"rate {spec.name} {stream_id}", controller.kept)):
            continue
        first = _rate(getattr(estimator, "initial_rate", None))
        # What the program says of the first rate goes before.
        if first is not None and "initialRate" not in context.settings.under("spark.streaming.backpressure."):
            context.set_rate(stream_id, first)
    return made


def _estimator(spec: RateEstimatorSpec, options: Any, interval_ms: int) -> RateEstimator:
    try:
        estimator = spec.factory(options, interval_ms)
    except ValueError as error:
        raise ConfigurationError(f"rate estimator {spec.name!r}: {error}") from error
    except Exception as error:
        raise PluginError(f"rate estimator {spec.name!r} cannot be made: {error!r}") from error
    if not isinstance(estimator, RateEstimator):
        raise PluginError(
            f"rate estimator {spec.name!r}: its factory made a {type(estimator).__name__} without compute"
        )
    return estimator
