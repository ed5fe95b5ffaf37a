"""Conformance suite of the monitor, run by ``penstock plugins check`` and the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from penstock import ListenerContext
from penstock_testing import Capabilities, ListenerProbe, ListenerSuite
from penstock_ui.monitor import Monitor
from penstock_ui.prometheus import metrics
from penstock_ui.start import monitors


class MonitorSuite(ListenerSuite):
    """The monitor with its server on any free port."""

    name = "ui"
    capabilities = Capabilities(serves=True)
    conf: ClassVar[Mapping[str, str]] = {"spark.penstock.ui.port": "0"}

    def make(self, context: ListenerContext) -> ListenerProbe:

        (monitor,) = monitors(context)
        return ListenerProbe([monitor], lambda: totals(monitor))


def totals(monitor: Monitor) -> dict[str, Any]:
    """The totals that the checks compare with the events."""
    snapshot = monitor.snapshot()
    completed = snapshot.completed
    return {
        "batches": snapshot.totals.completed_batches,
        "failed_batches": snapshot.totals.failed_batches,
        "records": snapshot.totals.processed_records,
        "stream_records": {stream.id: stream.records for stream in snapshot.streams if stream.records},
        "receiver_errors": sum(stream.errors for stream in snapshot.streams),
        "last_batch": completed[-1].time_ms if completed else None,
        "series": sum(len(metric.samples) for metric in metrics(snapshot)),
    }
