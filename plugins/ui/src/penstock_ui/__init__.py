"""Monitoring for Penstock: metrics, dashboard, REST in Spark's shape, Prometheus, history.

Executors import this module, too. Driver-only modules are imported when the context starts.
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
    """Return the listener that collects the metrics, or none when everything is switched off."""
    monitors: Iterable[Monitor] = import_module("penstock_ui.start").monitors(context)
    return monitors
