"""The output of ``penstock demo``: a table with a row per batch, or a line per batch, and a summary.

The content follows from the completed batches alone. On the main thread; rich turns the spinner on its own thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from statistics import median_low
from types import TracebackType
from typing import Self

import click
from attrs import frozen
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from penstock import BatchInfo, spi

# Lines of the terminal that are not batches: the table's head, the words, the spinner and the shell's prompt.
_OTHER_LINES = 8


@frozen
class ViewedBatch:
    """A completed batch with the other values that the demo shows.

    Attributes:
        info: the batch, from the event.
        interval_ms: the batch interval.
        rate_limit: the receiver's rate limit at completion, records/s; ``None`` for no limit.
        top_words: the most frequent words with their counts, descending; ``None`` shows no words.
    """

    info: BatchInfo
    interval_ms: int
    rate_limit: float | None = None
    top_words: tuple[tuple[str, int], ...] | None = ()

    @property
    def failure(self) -> str:
        """The error of the first failed output operation, in one line; empty when none failed."""
        for operation in self.info.outputOperationInfos.values():
            if operation.failureReason is not None:
                # Through the module: its name is imported at first use, and imports Py4J.
                return spi.printable(spi.reason(RuntimeError(operation.failureReason)))
        return ""


@frozen
class BatchTable:
    """Batches as a table, with the top words of the last one below. Columns that do not fit are left out."""

    batches: Sequence[ViewedBatch]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The widest table that fits, then the words."""
        unbound = options.update(max_width=1000)
        for dropped in range(len(_DROPPED) + 1):
            columns = {name: cell for name, cell in _COLUMNS.items() if name not in _DROPPED[:dropped]}
            grid = self._grid(columns)
            if console.measure(grid, options=unbound).maximum <= options.max_width:
                break
        yield grid
        if self.batches and self.batches[-1].top_words is None:
            return
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
    ]
    if batch.failure:
        parts.append(f"failed: {batch.failure}")
    elif batch.top_words is not None:
        parts.append(f"top words {_words(batch)}")
    return "  ".join(parts)


def summary(batches: Sequence[ViewedBatch]) -> str:
    """Counts and delays of all batches, in two lines."""
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
    measured = [delay for delay in delays if delay is not None]
    return f"{median_low(measured):,}/{max(measured):,} ms" if measured else "-"


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
    return ", ".join(f"{word} {count:,}" for word, count in batch.top_words or ()) or "none"


def _style(batch: ViewedBatch) -> str:
    """Green for a batch that finished within its interval, yellow for a later one, red for a failed one."""
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
# Left out in this order when the terminal is narrow.
_DROPPED = ("records/s", "scheduling", "rate limit")


class Screen:
    """Base class of the batch displays; this one shows nothing."""

    def __enter__(self) -> Self:
        """Start to show."""
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Leave the final state on the terminal."""

    def phase(self, text: str) -> None:
        """Show what the demo is doing."""

    def dashboard(self, url: str) -> None:
        """Show the dashboard's address."""

    def add(self, batch: ViewedBatch) -> None:
        """Show a completed batch."""


class Lines(Screen):
    """One line of text per batch, for pipes and files."""

    def dashboard(self, url: str) -> None:
        """Print one line."""
        click.echo(f"dashboard {url}")

    def add(self, batch: ViewedBatch) -> None:
        """Print one line."""
        click.echo(line(batch))


class Picture(Screen):
    """A table that is redrawn with each batch, and a spinner below it. For terminals only."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spinner = Spinner("dots")
        self._batches: list[ViewedBatch] = []
        self._url = ""
        # Log lines appear above the table, unless standard error is redirected.
        self._live = Live(console=console, refresh_per_second=8, redirect_stderr=sys.stderr.isatty())

    def __enter__(self) -> Self:
        """Start to draw."""
        self._live.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Leave the table, without the spinner."""
        self._live.update(drawing(self._last()))
        self._live.stop()

    def phase(self, text: str) -> None:
        """Show the text beside the spinner."""
        self._spinner.update(text=Text(text, "dim"))
        self._draw()

    def dashboard(self, url: str) -> None:
        """Show the address below the table."""
        self._url = url
        self._draw()

    def add(self, batch: ViewedBatch) -> None:
        """Add a row."""
        self._batches.append(batch)
        self._draw()

    def _draw(self) -> None:
        self._live.update(drawing(self._last(), self._spinner, self._url), refresh=True)

    def _last(self) -> Sequence[ViewedBatch]:
        return self._batches[-max(self._console.height - _OTHER_LINES - bool(self._url), 1) :]


def drawing(batches: Sequence[ViewedBatch], spinner: Spinner | None = None, url: str = "") -> RenderableType:
    """The table, once there are batches, the dashboard's address and the spinner."""
    parts: list[RenderableType] = [BatchTable(batches), Text()] if batches else []
    if url:
        parts.append(Text.assemble(("dashboard  ", "bold"), (url, f"link {url}")))
    return Group(*parts, *([spinner] if spinner else []))
