"""Conformance suite of the listener, run by ``penstock plugins check`` and the tests."""

from __future__ import annotations

from typing import Any

from penstock import ListenerContext
from penstock_openlineage.lineage_listener import LineageListener
from penstock_openlineage.options import OpenLineageOptions
from penstock_testing import ListenerProbe, ListenerSuite


class Totals:
    """The totals of the events."""

    def __init__(self) -> None:
        self.batches = self.records = 0

    def add(self, event: dict[str, Any]) -> None:
        """Count an event, of which there is one per batch."""
        self.batches += event["eventType"] == "RUNNING"
        facets = (dataset.get("inputFacets", {}) for dataset in event["inputs"])
        self.records += sum(each["inputStatistics"]["rowCount"] for each in facets if each)


class LineageSuite(ListenerSuite):
    """The listener, with an event after each batch."""

    name = "openlineage"

    def make(self, context: ListenerContext) -> ListenerProbe:
        totals = Totals()
        listener = LineageListener(context, OpenLineageOptions(interval=0), totals.add)
        context.on_stopped(listener.close)
        return ListenerProbe([listener], lambda: {"batches": totals.batches, "records": totals.records})
