"""Monitoring for Penstock: metrics, dashboard, REST in Spark's shape, Prometheus, history.

Executors import this module, too. Driver-only modules are imported when the context starts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from attrs import evolve

from penstock import ListenerContext, StoredBlock, hookimpl
from penstock_ui.options import OPTIONS, TRACE_LINKS

if TYPE_CHECKING:
    from penstock import Block
    from penstock_ui.monitor import Monitor

#: Prefix of configuration keys → the options class that reads them.
penstock_options = OPTIONS


@hookimpl
def listeners(context: ListenerContext) -> Iterable[Monitor]:
    """Return the listener that collects the metrics, or none when everything is switched off."""
    monitors: Iterable[Monitor] = import_module("penstock_ui.start").monitors(context)
    return monitors


# Another name than the hook's: the package has a module ``store``.
@hookimpl(wrapper=True, specname="store")
def add_trace_contexts(
    block: Block, configuration: Mapping[str, str]
) -> Generator[None, StoredBlock | None, StoredBlock | None]:
    """Add the trace contexts of a block's messages to what the driver learns of it, if the program wants links."""
    stored = yield
    if configuration.get(TRACE_LINKS, "").strip().lower() != "true" or not isinstance(stored, StoredBlock):
        return stored
    traceparents = import_module("penstock_ui.trace_links").traceparents_of(block.table)
    return evolve(stored, traceparents=traceparents) if traceparents else stored
