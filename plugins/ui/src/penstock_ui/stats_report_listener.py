"""``StatsReportListener``: logs how long the last batches took."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from penstock import BatchCompleted, BatchInfo, ConfigurationError, StreamingListener
from penstock.spi import get_logger, shown

log = get_logger("stats_report")

_PERCENTS = (0, 5, 10, 25, 50, 75, 90, 95, 100)


class StatsReportListener(StreamingListener):
    """Logs the distribution of the last batches' total and processing delays after each batch.

    It logs at level INFO: set ``spark.penstock.log.level=INFO`` to see it.

    Args:
        numBatchInfos: how many batches.

    Raises:
        ConfigurationError: ``numBatchInfos`` is not a positive integer.
    """

    def __init__(self, numBatchInfos: int = 10) -> None:
        if type(numBatchInfos) is not int or numBatchInfos < 1:
            raise ConfigurationError(f"numBatchInfos={shown(numBatchInfos)}: must be a positive integer")
        #: The last batches.
        self.infos: deque[BatchInfo] = deque(maxlen=numBatchInfos)

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        info = batchCompleted.batchInfo
        self.infos.append(info)
        total = [batch.totalDelay for batch in self.infos if batch.totalDelay is not None]
        processing = [batch.processingDelay for batch in self.infos if batch.processingDelay is not None]
        if total:
            log.info(
                "batch delays",
                batch_time=info.batchTime,
                batches=len(total),
                total_delay_ms=distribution(total),
                # A batch that was abandoned before it started has no processing delay.
                processing_delay_ms=distribution(processing) if processing else None,
            )


def distribution(values: Iterable[int]) -> str:
    """Format percentiles as Spark does, from the minimum (0 %) to the maximum (100 %).

    Args:
        values: at least one.
    """
    ordered = sorted(values)
    at = ((percent, min(percent * len(ordered) // 100, len(ordered) - 1)) for percent in _PERCENTS)
    return ", ".join(f"{percent}%: {ordered[index]}" for percent, index in at)
