"""``penstock run --watch``: shows the demo's table for the batches of any program.

A plugin of this process alone: its listener is called on the bus's thread and draws there.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from contextlib import contextmanager

import click

from penstock import BatchCompleted, ListenerContext, hookimpl
from penstock.spi import Plugins
from penstock_cli.demo_view import Lines, Picture, Screen, ViewedBatch, summary
from penstock_cli.shared import is_live, terminal

_ENTRY_POINT = importlib.metadata.EntryPoint("watch", "penstock_cli.watch:plugin", "penstock")


class Watch:
    """Shows each completed batch of the contexts that the program starts."""

    def __init__(self) -> None:
        self.screen: Screen = Screen()
        self.seen: list[ViewedBatch] = []

    @hookimpl
    def listeners(self, context: ListenerContext) -> list[WatchListener]:
        """Listen to a context."""
        return [WatchListener(self, context.batch_interval_ms)]

    def add(self, batch: ViewedBatch) -> None:
        """Show a batch."""
        self.seen.append(batch)
        self.screen.add(batch)


class WatchListener:
    """The listener of one context."""

    def __init__(self, watch: Watch, interval_ms: int) -> None:
        self._watch = watch
        self._interval_ms = interval_ms

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        """Show the batch, with the rate limits of its receivers in sum."""
        info = batchCompleted.batchInfo
        limits = [stream.rate_limit for stream in info.streamIdToInputInfo.values()]
        receiver_limits = [limit for limit in limits if limit is not None]
        limit = sum(receiver_limits) if receiver_limits and len(receiver_limits) == len(limits) else None
        self._watch.add(ViewedBatch(info, self._interval_ms, limit, None))


plugin = Watch()


@contextmanager
def watching() -> Iterator[None]:
    """Show the batches of contexts that are started in this block, and a summary at its end."""
    plugin.screen, plugin.seen = Picture(terminal()) if is_live() else Lines(), []
    Plugins.additional_entry_points.append(_ENTRY_POINT)
    try:
        with plugin.screen:
            yield
    finally:
        Plugins.additional_entry_points.remove(_ENTRY_POINT)
        plugin.screen = Screen()
        click.echo(summary(plugin.seen))
