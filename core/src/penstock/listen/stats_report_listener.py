"""``StatsReportListener``: how long the last batches took, as lines in the log.

Owns the infos of the last batches. Never changes anything. Runs on the listener's own thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from penstock.errors import ConfigurationError
from penstock.listen.streaming_listener import StreamingListener
from penstock.runtime.log import get_logger

log = get_logger("stats_report")

_PERCENTS = (0, 5, 10, 25, 50, 75, 90, 95, 100)


class StatsReportListener(StreamingListener):
    """Logs, after each batch, how the total delay and the processing time of the last batches are distributed.

    It logs at level INFO, and Penstock is silent below WARNING: set ``spark.penstock.log.level=INFO`` to see it.

    Args:
        numBatchInfos: how many batches count.

    Raises:
        ConfigurationError: that is not a positive whole number.
    """

    def __init__(self, numBatchInfos: int = 10) -> None:
        if type(numBatchInfos) is not int or numBatchInfos < 1:
            raise ConfigurationError(f"numBatchInfos={numBatchInfos!r}: must be a positive whole number")
        self._infos: deque[Any] = deque(maxlen=numBatchInfos)

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        """Count the batch, and log."""
        info = batchCompleted.batchInfo
        self._infos.append(info)
        for what, delays in (
            ("total delay", [each.totalDelay for each in self._infos]),
            ("processing time", [each.processingDelay for each in self._infos]),
        ):
            known = [delay for delay in delays if delay is not None]
            if known:
                log.info(f"{what} (ms): {distribution(known)}", batch_time=info.batchTime, batches=len(known))


def distribution(values: Iterable[int]) -> str:
    """Say how values are distributed, as Spark does: at 0 %, the least; at 100 %, the greatest.

    Args:
        values: at least one.
    """
    ordered = sorted(values)
    at = ((percent, min(percent * len(ordered) // 100, len(ordered) - 1)) for percent in _PERCENTS)
    return ", ".join(f"{percent}%: {ordered[index]}" for percent, index in at)
