"""The Grafana dashboard asks for nothing that the exposition lacks."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import pytest

from penstock_ui.prometheus import PREFIX, Metric, metrics
from penstock_ui.snapshot import Snapshot

DASHBOARD: dict[str, Any] = json.loads((files("penstock_ui") / "grafana.json").read_text(encoding="utf-8"))
TARGETS = [(panel, target) for panel in DASHBOARD["panels"] for target in panel["targets"]]
KNOWN: dict[str, Metric] = {f"{PREFIX}{metric.name}": metric for metric in metrics(Snapshot())}
# Prometheus adds them.
OF_THE_SCRAPE = {"job", "instance"}


def queried(expression: str) -> list[tuple[str, str]]:
    """Names of metrics with their selectors."""
    return re.findall(r"(penstock_\w+)\{([^}]*)\}", expression)


@pytest.mark.parametrize(("panel", "target"), TARGETS, ids=[f"{p['title']} {t['refId']}" for p, t in TARGETS])
def test_query_names_only_existing_metrics_and_labels(panel: dict[str, Any], target: dict[str, Any]) -> None:
    found = queried(target["expr"])
    assert found
    assert re.findall(r"penstock_\w+", target["expr"]) == [name for name, _ in found]
    for name, selector in found:
        labels = set(re.findall(r"(\w+)=", selector))
        assert labels <= {*KNOWN[name].labels, *OF_THE_SCRAPE}
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert shown <= {*KNOWN[name].labels, *OF_THE_SCRAPE}


@pytest.mark.parametrize(("panel", "target"), TARGETS, ids=[f"{p['title']} {t['refId']}" for p, t in TARGETS])
def test_counters_are_shown_as_rates(panel: dict[str, Any], target: dict[str, Any]) -> None:
    for name, _ in queried(target["expr"]):
        is_rated = re.search(rf"(rate|increase)\({name}\b", target["expr"]) is not None
        assert is_rated == (KNOWN[name].kind == "counter")


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["title"])
def test_unit_is_that_of_the_metrics(panel: dict[str, Any]) -> None:
    names = [name for target in panel["targets"] for name, _ in queried(target["expr"])]
    unit = panel["fieldConfig"]["defaults"]["unit"]
    assert (unit == "s") == all(name.endswith("_seconds") for name in names)
    assert (unit == "bytes") == all(name.endswith("_bytes") for name in names)


def test_panels_fill_the_rows_without_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        position = panel["gridPos"]
        own = {
            (x, y)
            for x in range(position["x"], position["x"] + position["w"])
            for y in range(position["y"], position["y"] + position["h"])
        }
        assert not cells & own
        cells |= own
    assert {x for x, _ in cells} == set(range(24))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
