"""docs/log-events.md has every event that the code logs."""

from __future__ import annotations

import json
import re

import pytest
from tests.docs.write_log_events import PAGE, START, lists, log_events

from penstock.runtime.log import configure, get_logger


def test_events_are_those_that_the_code_logs() -> None:
    prose, start, rest = PAGE.read_text(encoding="utf-8").partition(START)
    assert prose
    assert start + rest == lists(), "run: python -m tests.docs.write_log_events"


def test_events_are_short_phrases_without_a_full_stop() -> None:
    for each in log_events():
        assert len(each.event) <= 60, each
        assert not each.event.endswith("."), each
        assert "\n" not in each.event, each


def test_fields_have_one_spelling() -> None:
    for each in log_events():
        for field in each.fields:
            assert re.fullmatch(r"[a-z][a-z0-9_]*", field), each


def test_example_lines_of_the_page_are_as_logged(caplog: pytest.LogCaptureFixture) -> None:
    console, as_json = re.findall(r"^```(?:text|json)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)[:2]
    for format, shown in (("console", console), ("json", as_json)):
        caplog.clear()
        configure("WARNING", format, app_id="app-20261122102556-0003")  # type: ignore[arg-type]
        try:
            get_logger("job_scheduler").error(
                "job failed",
                batch_time=1_795_343_156_000,
                output_op_id=0,
                operation="foreachRDD at app.py:12",
                reason="ValueError: no number",
                raised_at="app.py:8 in parsed",
            )
        finally:
            configure("WARNING")
        (logged,) = [record.getMessage() for record in caplog.records]
        if format == "json":
            expected, found = json.loads(shown), json.loads(logged)
            assert {**found, "timestamp": expected["timestamp"]} == expected
        else:
            assert logged.partition(" ")[2] == shown.strip().partition(" ")[2]
