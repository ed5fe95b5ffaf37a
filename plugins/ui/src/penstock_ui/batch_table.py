"""``BatchTable``: the last batches, in a table that a notebook updates."""

from __future__ import annotations

from html import escape
from time import monotonic
from typing import Any

from penstock import BatchCompleted, BatchInfo, ConfigurationError, StreamingListener
from penstock.spi import printable, shown
from penstock_ui.dashboard.units import batch_time, count, duration
from penstock_ui.snapshot import error_line

# Minimum time between two updates.
_UPDATE_S = 1.0
_COLUMNS = ("batch", "records", "scheduling delay", "processing time", "total delay", "error")


class BatchTable(StreamingListener):
    """Shows the last batches in a notebook, and follows new ones.

    ``ssc.addStreamingListener(table := BatchTable())`` before the start; ``table`` at the end of a cell shows it there,
    updated at most once per second. If several cells show it, the last one follows.

    Args:
        numBatches: how many batches.

    Raises:
        ConfigurationError: ``numBatches`` is not a positive integer.
    """

    def __init__(self, numBatches: int = 10) -> None:
        if type(numBatches) is not int or numBatches < 1:
            raise ConfigurationError(f"numBatches={shown(numBatches)}: must be a positive integer")
        self._num_batches = numBatches
        # Replaced, not changed: the listener's thread writes it, and the notebook's reads it.
        self._infos: tuple[BatchInfo, ...] = ()
        self._handle: Any = None
        self._updated_s = 0.0

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        self._infos = (*self._infos, batchCompleted.batchInfo)[-self._num_batches :]
        now_s = monotonic()
        if self._handle is not None and now_s - self._updated_s >= _UPDATE_S:
            self._updated_s = now_s
            self._handle.update(_html(self))

    def _ipython_display_(self) -> None:
        from IPython.display import display

        self._handle = display(_html(self), display_id=True)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
        rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(info))}</tr>" for info in self._infos[::-1])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _html(table: BatchTable) -> Any:
    from IPython.display import HTML

    return HTML(table._repr_html_())


def _cells(info: BatchInfo) -> list[str]:
    failures = [each.failureReason for each in info.outputOperationInfos.values() if each.failureReason]
    delays = (info.schedulingDelay, info.processingDelay, info.totalDelay)
    return [
        batch_time(info.batchTime, 1),
        count(info.numRecords),
        *(duration(delay) for delay in delays),
        escape(printable(error_line(failures[0]))) if failures else "",
    ]
