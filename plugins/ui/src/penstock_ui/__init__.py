"""Monitoring for Penstock: metrics, dashboard, REST in Spark's shape, Prometheus, history.

Executors import this module, too: what only the driver needs is imported when the context starts.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from penstock import ListenerContext, hookimpl
from penstock_ui.options import OPTIONS

#: Prefix of configuration keys → the options class that reads them.
penstock_options = OPTIONS


@hookimpl
def listeners(context: ListenerContext) -> Iterable[Any]:
    """Offer the listener that collects the metrics; none when everything is switched off."""
    found: Iterable[Any] = import_module("penstock_ui.start").monitors(context)
    return found
