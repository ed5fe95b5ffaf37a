"""The report of a period: one file that loads nothing, without secrets, from an event log."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from plugins.ui.tests.conftest import T, batch_events
from plugins.ui.tests.snapshots import HOSTILE

from penstock import ConfigurationError, PenstockError, ReceiverInfo, ReceiverStarted, StoreTimes
from penstock_testing import FakeListenerContext, listener_events
from penstock_ui import commands
from penstock_ui.event_log import encode
from penstock_ui.monitor import describe, without_secrets
from penstock_ui.own_events import Sampled
from penstock_ui.report import Period, Report, report
from penstock_ui.snapshot import Storage

FAILURE = "Traceback (most recent call last):\n  File x\nValueError: <b>order 7</b>"


class Tags(HTMLParser):
    """The names of all attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes |= {name for name, _value in attrs}


def log(events: list[Any], **configuration: str) -> bytes:
    described = describe(FakeListenerContext(configuration=configuration))
    return b"".join(map(encode, [described, *events]))


def of(events: list[Any], first: str = "", last: str = "", **configuration: str) -> Report:
    return report([log(events, **configuration)], Period.of(first, last))


def batches(*numbers: int, failing: int = -1) -> list[Any]:
    return [e for n in numbers for e in batch_events(n, failure=FAILURE if n == failing else None)]


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(style|script)>.*?</\1>", "", html)))


def utc(number: int) -> str:
    return datetime.fromtimestamp((T + number * 1000) / 1000, UTC).isoformat()


def test_report_loads_nothing_and_runs_no_script_of_the_application() -> None:
    events = [*listener_events(random.Random(5), batches=60), *batch_events(900, failure=HOSTILE)]
    html = of(events, **{"spark.app.name": HOSTILE}).html
    tags = Tags()
    tags.feed(html)
    assert not {name for name in tags.attributes if name in {"src", "href", "action", "srcset"} or name[:2] == "on"}
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert html.count("<script>") == 1
    assert "<img" not in html
    assert "default-src 'none'" in html


def test_report_has_the_batches_of_its_period_alone() -> None:
    events = batches(*range(100), failing=50)
    whole, part = of(events), of(events, utc(10), utc(29))
    assert (whole.batches, part.batches) == (100, 20)
    assert "ValueError" in whole.html
    assert "ValueError" not in part.html
    assert of(events, utc(50), utc(50)).batches == 1


def test_errors_that_are_alike_are_one_row() -> None:
    events = [e for n in range(40) for e in batch_events(n, failure=FAILURE if n % 2 else None)]
    html = of(events).html
    assert html.count("<summary>") == 1
    assert "<b>order" not in html
    assert "20 failed" in text(html)


def test_slow_batches_are_the_headline() -> None:
    assert "Keeping up: batches use 20% of the batch interval" in text(of(batches(*range(30))).html)
    slow = of(list(listener_events(random.Random(7), batches=400)))
    found = re.search(r"(\d+) of (\d+) batches took longer than the batch interval \(1.0 sec\)", text(slow.html))
    assert found is not None
    assert int(found[2]) == 400


def test_time_budget_is_that_of_the_period() -> None:
    def sample(second: int, **times: int) -> Sampled:
        return Sampled(T + second * 1000, Storage(), times={0: StoreTimes(**times)})

    events = [
        ReceiverStarted(ReceiverInfo(0, "Receiver-0", True, "host", "1")),
        sample(0, elapsed=1000),
        *batches(*range(10)),
        sample(11, elapsed=11_000, limiter=1000),
        *batches(*range(12, 20)),
        sample(21, elapsed=21_000, limiter=10_000),
    ]
    assert "holds Receiver-0 back for 90% of its time" in text(of(events, utc(11), utc(25)).html)
    assert "waits for its source for 90% of its time" in text(of(events, utc(0), utc(11)).html)


def test_configuration_has_no_secrets() -> None:
    configuration = {
        "spark.app.name": "orders",
        "spark.penstock.ui.token": "hunter2-token",
        "spark.hadoop.fs.s3a.secret.key": "hunter2-s3",
        "spark.penstock.receiver.rabbitmq.url": "amqp://user:hunter2@broker/",
        "spark.driver.extraJavaOptions": "-Dx.password=hunter2 -Dy=hunter2-token -Dz=3",
        "spark.streaming.blockInterval": "200ms",
    }
    html = of(batches(1, 2), **configuration).html
    assert "hunter2" not in html
    assert "spark.streaming.blockInterval" in html
    assert without_secrets(configuration)["spark.driver.extraJavaOptions"] == "-Dx.password=*** -Dy=*** -Dz=3"


def test_log_of_an_earlier_version_has_no_configuration() -> None:
    html = report([b"".join(map(encode, batches(1)))], Period()).html
    assert "This log has no configuration" in html


def test_period_without_batches_is_an_error_that_names_those_of_the_log() -> None:
    with pytest.raises(ConfigurationError, match=r"no batch in this period: the log has batches from .+ to "):
        of(batches(1, 2), utc(50), utc(60))


@pytest.mark.parametrize(("first", "last"), [("yesterday", ""), ("", "2026-13-01"), ("2026-01-02", "2026-01-01")])
def test_invalid_period_is_an_error_that_names_the_option(first: str, last: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--from|--to"):
        Period.of(first, last)


def test_damaged_lines_are_counted() -> None:
    found = report([log(batches(1)) + b"{broken\n"], Period())
    assert found.damaged == 1
    assert "1 damaged line skipped" in text(found.html)


def test_command_writes_the_file_and_says_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "events-app-0.000001.jsonl").write_bytes(log(batches(*range(20))))
    output = tmp_path / "incident.html"
    result = CliRunner().invoke(commands.report, [str(tmp_path), "--output", str(output)], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"{output}: 20 batches from " in result.output
    assert output.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_output_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "events-app-0.000001.jsonl").write_bytes(log(batches(1)))
    output = str(tmp_path / "missing" / "report.html")
    with pytest.raises(PenstockError, match="cannot be written to"):
        CliRunner().invoke(commands.report, [str(tmp_path), "--output", output], catch_exceptions=False)
