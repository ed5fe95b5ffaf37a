"""How a stream at work looks: a table with a row a batch, or a line a batch; and the summary at the end.

Owns the words and the layout, which follow from the batches alone. Never asks Spark or the context for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from statistics import median_low

from attrs import frozen
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from penstock.listen.events import BatchInfo
from penstock.spark import failure


@frozen
class ViewedBatch:
    """A batch and what was seen beside it.

    Attributes:
        info: of the completed batch.
        interval_ms: between two batches.
        rate_limit: the receiver's when the batch completed, records/s; ``None`` for no limit.
        top_words: the batch's most frequent words with their counts, the most frequent first.
    """

    info: BatchInfo
    interval_ms: int
    rate_limit: float | None = None
    top_words: tuple[tuple[str, int], ...] = ()

    @property
    def failure(self) -> str:
        """Why an output operation failed, in one line; empty when none did."""
        for operation in self.info.outputOperationInfos.values():
            if operation.failureReason is not None:
                return failure.reason(RuntimeError(operation.failureReason))
        return ""


@frozen
class BatchTable:
    """Batches as a table, and the words of the last one below. Columns that do not fit are left out.

    Attributes:
        batches: the rows.
    """

    batches: Sequence[ViewedBatch]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table that fits, then the words."""
        unbound = options.update(max_width=1000)
        for dropped in range(len(_DROPPED) + 1):
            columns = {name: cell for name, cell in _COLUMNS.items() if name not in _DROPPED[:dropped]}
            grid = self._grid(columns)
            if console.measure(grid, options=unbound).maximum <= options.max_width:
                break
        yield grid
        words = Text.assemble("\n", ("top words  ", "bold"), _words(self.batches[-1]) if self.batches else "none")
        words.no_wrap, words.overflow = True, "ellipsis"
        yield words

    def _grid(self, columns: dict[str, Callable[[ViewedBatch], str]]) -> Table:
        grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for name in columns:
            grid.add_column(name, justify="left" if name == "batch" else "right", no_wrap=True)
        for batch in self.batches:
            grid.add_row(*(Text(cell(batch)) for cell in columns.values()), style=_style(batch))
        return grid


def line(batch: ViewedBatch) -> str:
    """A batch as one line of text."""
    info = batch.info
    parts = [
        _time(batch),
        f"{info.numRecords:,} records",
        f"{_per_s(info.numRecords, batch.interval_ms)} records/s",
        f"scheduling {_ms(info.schedulingDelay)}",
        f"processing {_ms(info.processingDelay)}",
        f"total {_ms(info.totalDelay)}",
        f"rate limit {_limit(batch)}",
        f"failed: {batch.failure}" if batch.failure else f"top words {_words(batch)}",
    ]
    return "  ".join(parts)


def summary(batches: Sequence[ViewedBatch]) -> str:
    """All batches in a few lines."""
    if not batches:
        return "no batches"
    records = sum(batch.info.numRecords for batch in batches)
    failed = sum(bool(batch.failure) for batch in batches)
    delays = {
        "scheduling": [batch.info.schedulingDelay for batch in batches],
        "processing": [batch.info.processingDelay for batch in batches],
        "total": [batch.info.totalDelay for batch in batches],
    }
    return "\n".join(
        [
            f"{_count(len(batches), 'batch', 'batches')}, {_count(records, 'record', 'records')}, "
            f"{_per_s(records, sum(batch.interval_ms for batch in batches))} records/s, {failed} failed",
            "delay p50/max: " + ", ".join(f"{name} {_spread(delay)}" for name, delay in delays.items()),
        ]
    )


def _spread(delays: Sequence[int | None]) -> str:
    known = [delay for delay in delays if delay is not None]
    return f"{median_low(known):,}/{max(known):,} ms" if known else "-"


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _time(batch: ViewedBatch) -> str:
    time = datetime.fromtimestamp(batch.info.batchTime / 1000)
    return f"{time:%H:%M:%S}" if batch.interval_ms % 1000 == 0 else f"{time:%H:%M:%S}.{time.microsecond // 1000:03}"


def _per_s(records: int, ms: int) -> str:
    return f"{records * 1000 / ms:,.0f}"


def _ms(delay: int | None) -> str:
    return "-" if delay is None else f"{delay:,} ms"


def _limit(batch: ViewedBatch) -> str:
    return "none" if batch.rate_limit is None else f"{batch.rate_limit:,.0f}"


def _words(batch: ViewedBatch) -> str:
    return ", ".join(f"{word} {count:,}" for word, count in batch.top_words) or "none"


def _style(batch: ViewedBatch) -> str:
    """Green while batches finish within their interval, yellow when they do not, red when they fail."""
    if batch.failure:
        return "red"
    total = batch.info.totalDelay
    return "" if total is None else "green" if total <= batch.interval_ms else "yellow"


_COLUMNS: dict[str, Callable[[ViewedBatch], str]] = {
    "batch": lambda batch: _time(batch),
    "records": lambda batch: f"{batch.info.numRecords:,}",
    "records/s": lambda batch: _per_s(batch.info.numRecords, batch.interval_ms),
    "scheduling": lambda batch: _ms(batch.info.schedulingDelay),
    "processing": lambda batch: _ms(batch.info.processingDelay),
    "total": lambda batch: _ms(batch.info.totalDelay),
    "rate limit": lambda batch: _limit(batch),
}
# The first goes first.
_DROPPED = ("records/s", "scheduling", "rate limit")
