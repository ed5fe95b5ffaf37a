"""Monitoring for Penstock: metrics, dashboard, REST in Spark's shape, Prometheus, history."""

from collections.abc import Iterable
from typing import Any

from penstock import ListenerContext, hookimpl
from penstock_ui.snapshot import Batch, BatchStatus, Operation, RateChange, Snapshot, Stream

__all__ = ["Batch", "BatchStatus", "Operation", "RateChange", "Snapshot", "Stream"]


@hookimpl
def listeners(context: ListenerContext) -> Iterable[Any]:
    """Offer the listener that collects the metrics."""
    return []
