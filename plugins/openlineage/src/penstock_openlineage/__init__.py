"""OpenLineage for Penstock: reports each run of a program with its inputs and outputs.

Executors import this module, too. Driver-only modules are imported when the context starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from penstock import ListenerContext, hookimpl
from penstock_openlineage.options import OpenLineageOptions

if TYPE_CHECKING:
    from penstock_openlineage.lineage_listener import LineageListener

__all__ = ["OpenLineageOptions"]

#: Prefix of configuration keys → the options class that reads them.
penstock_options = {"spark.penstock.openlineage.": OpenLineageOptions}


@hookimpl
def listeners(context: ListenerContext) -> Iterable[LineageListener]:
    """Offer the listener, when ``spark.penstock.openlineage.url`` or ``file`` is set."""
    offered: Iterable[LineageListener] = import_module("penstock_openlineage.lineage_listener").listeners_of(context)
    return offered
