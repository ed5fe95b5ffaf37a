"""docs/monitoring.md and docs/reference/monitoring.md say what the code does."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import click
import pytest
import yaml  # type: ignore[import-untyped]  # comes with Bokeh
from plugins.ui.tests import write_monitoring
from plugins.ui.tests.snapshots import snapshot

from penstock_ui import commands, prometheus
from penstock_ui.dashboard.pages import PAGES

TEXT = (write_monitoring.ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
RUNBOOKS = (write_monitoring.ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
REFERENCE = write_monitoring.PAGE.read_text(encoding="utf-8")
ALERTS = (files("penstock_ui") / "alerts.yml").read_text(encoding="utf-8")
METRICS = {f"{prometheus.PREFIX}{each.name}": each for each in prometheus.metrics(snapshot())}


def test_reference_is_that_which_the_code_generates() -> None:
    assert write_monitoring.page() == REFERENCE, "run: python -m plugins.ui.tests.write_monitoring"


def test_every_field_of_the_reference_has_a_meaning() -> None:
    assert re.findall(r"^\| `\w+` \| \|$", REFERENCE, re.MULTILINE) == []


def test_every_metric_in_texts_and_rules_exists_with_its_labels() -> None:
    named = set(re.findall(r"penstock_[a-z_]+[a-z]", TEXT + ALERTS)) - {"penstock_ui"}
    assert named <= set(METRICS)
    for name, label in re.findall(r"(penstock_[a-z_]+)\{(\w+)=", TEXT + ALERTS):
        assert label in METRICS[name].labels


def test_alert_rules_are_rules_of_prometheus() -> None:
    (group,) = yaml.safe_load(ALERTS)["groups"]
    for rule in group["rules"]:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert rule["annotations"]["summary"]
        for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
            names = re.findall(r"penstock_[a-z_]+", rule["expr"])
            assert all(label in METRICS[name].labels for name in names)
    named = re.findall(r"`(Penstock[A-Z]\w+)`", TEXT)
    assert set(named) == {rule["alert"] for rule in group["rules"] if rule["labels"]["severity"] == "page"}


def test_every_alert_has_a_runbook_of_its_severity() -> None:
    (group,) = yaml.safe_load(ALERTS)["groups"]
    runbooks = re.findall(r"^## (Penstock\w+)\n\n\*(Page|Ticket)\.\* ", RUNBOOKS, re.MULTILINE)
    assert len(runbooks) == len(re.findall("^## ", RUNBOOKS, re.MULTILINE))
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in group["rules"]}
    assert {alert: severity.lower() for alert, severity in runbooks} == severities
    assert set(re.findall(r"`(Penstock[A-Z]\w+)`", RUNBOOKS)) <= set(severities)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool installed: apt-get install prometheus")
def test_promtool_finds_nothing_wrong_with_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(ALERTS, encoding="utf-8")
    command = ["promtool", "check", "rules", "--lint-fatal", str(tmp_path / "rules.yml")]
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_every_page_and_command_is_described() -> None:
    for page in PAGES:
        if page.name:
            assert f"| {page.name} |" in TEXT
    for name in set(re.findall(r"penstock (top|status|ui)\b", TEXT)):
        assert isinstance(getattr(commands, name), click.Command)
