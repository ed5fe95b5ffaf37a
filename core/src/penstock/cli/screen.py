"""Where the demonstration is seen: a picture that changes in place, or one line a batch.

Owns what is on the screen while it runs. A picture goes to a terminal only; a file, a pipe and a log get lines. Called
on the main thread; rich turns the spinner on a thread of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from penstock.cli.batch_view import BatchTable, ViewedBatch, line

# Lines that are not batches: the table's head, the words, the spinner, and room for the shell's.
_OTHER_LINES = 8


class Screen(Protocol):
    """Something to be looked at while batches run."""

    def __enter__(self) -> Screen:
        """Begin to show."""
        ...

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Leave what is to stay."""
        ...

    def phase(self, text: str) -> None:
        """Say what goes on."""
        ...

    def add(self, batch: ViewedBatch) -> None:
        """Show one more batch."""
        ...


class Lines:
    """A line a batch."""

    def __enter__(self) -> Lines:
        """Nothing to begin."""
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Nothing to leave."""

    def phase(self, text: str) -> None:
        """Not worth a line."""

    def add(self, batch: ViewedBatch) -> None:
        """Print its line."""
        click.echo(line(batch))


class Picture:
    """The table, drawn anew with each batch, and a spinner below.

    Args:
        console: a terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spinner = Spinner("dots")
        self._batches: list[ViewedBatch] = []
        # What is logged appears above the picture, unless standard error goes elsewhere.
        self._live = Live(console=console, refresh_per_second=8, redirect_stderr=sys.stderr.isatty())

    def __enter__(self) -> Picture:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Leave the table without the spinner."""
        self._live.update(drawing(self._last()))
        self._live.stop()

    def phase(self, text: str) -> None:
        """Put it beside the spinner."""
        self._spinner.update(text=Text(text, "dim"))
        self._draw()

    def add(self, batch: ViewedBatch) -> None:
        """Add a row."""
        self._batches.append(batch)
        self._draw()

    def _draw(self) -> None:
        self._live.update(drawing(self._last(), self._spinner), refresh=True)

    def _last(self) -> Sequence[ViewedBatch]:
        return self._batches[-max(self._console.height - _OTHER_LINES, 1) :]


def drawing(batches: Sequence[ViewedBatch], spinner: Spinner | None = None) -> RenderableType:
    """The picture: the table once there are batches, and what goes on."""
    parts: list[RenderableType] = [BatchTable(batches), Text()] if batches else []
    return Group(*parts, *([spinner] if spinner else []))
