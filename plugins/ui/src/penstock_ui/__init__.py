"""Monitoring for Penstock: metrics, dashboard, REST in Spark's shape, Prometheus, history.

Executors import this module, too: what only the driver needs is imported when the context starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from penstock import ListenerContext, hookimpl
from penstock_ui.options import OPTIONS

if TYPE_CHECKING:
    from penstock_ui.monitor import Monitor

#: Prefix of configuration keys → the options class that reads them.
penstock_options = OPTIONS


@hookimpl
def listeners(context: ListenerContext) -> Iterable[Monitor]:
    """Offer the listener that collects the metrics; none when everything is switched off."""
    found: Iterable[Monitor] = import_module("penstock_ui.start").monitors(context)
    return found
