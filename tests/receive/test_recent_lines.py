"""The last lines of a receiver's process: bounded, in its error events, and without secrets."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs
import pytest
from tests.helpers.fake_tracker import FakeTracker

from penstock import Receiver
from penstock.receive.messages import DeregisterReceiver, ReportError
from penstock.receive.recent_lines import (
    MAX_CHARS,
    MAX_LINES,
    RecentLines,
    recent_lines,
    recording,
    redaction_of,
)
from penstock.runtime import log as penstock_log
from penstock.runtime.redaction import Redaction, secret_names

if TYPE_CHECKING:
    from tests.helpers import EventLog


def nothing_known() -> Redaction:
    return Redaction.of(secret_names({}), ())


def lines_of(*texts: str, secrets: Iterable[str] = ()) -> list[str]:
    recent = RecentLines(io.StringIO(), lambda: Redaction.of(secret_names({}), secrets))
    for text in texts:
        recent.write(text)
    return recent.lines()


def test_last_lines_are_kept_oldest_first() -> None:
    assert lines_of("a\nb\n", "c", "d\n", "\n", "unfinished") == ["a", "b", "cd", "unfinished"]


def test_number_and_length_of_lines_are_bounded() -> None:
    lines = lines_of(*(f"{n} {'x' * 100_000}\n" for n in range(100)), "y" * 1_000_000)
    assert len(lines) == MAX_LINES
    assert {len(line) for line in lines} == {MAX_CHARS}
    assert lines[0].startswith("81 ")


def test_everything_is_still_written_to_the_stream() -> None:
    stream = io.StringIO()
    recent = RecentLines(stream, nothing_known)
    print("one\ntwo", file=recent)
    recent.flush()
    assert stream.getvalue() == "one\ntwo\n"
    assert recent.writable()


def test_no_part_of_a_secret_at_the_end_of_a_line_that_is_cut_remains() -> None:
    secret = "open-sesame"
    (line,) = lines_of("x" * (MAX_CHARS - 4) + secret, secrets=[secret])
    assert line == "x" * (MAX_CHARS - 4) + "***"


@attrs.frozen
class Options:
    host: str = "the-host"
    password: str = "of-the-options"
    pem: str = attrs.field(default="first line\nsecond line", repr=False)


class Login(Receiver[int]):
    def __init__(self) -> None:
        self.options = Options()
        self.api_key = b"of-the-instance"
        self.topic = "the-topic"

    def onStart(self) -> None:
        """Nothing to start."""

    def onStop(self) -> None:
        """Nothing to stop."""


def test_secrets_are_those_of_options_attributes_configuration_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_TOKEN", "of-the-environment")
    conf = {
        "spark.penstock.receiver.x.password": "of-the-conf",
        "spark.a.b": "the-b",
        "spark.penstock.receiver.x.pin": "of-the-rule",
        "spark.redaction.regex": "(?i)PIN$",
    }
    secrets = set(redaction_of(Login(), conf, "of-the-driver").values)
    assert secrets >= {
        "of-the-driver",
        "of-the-rule",
        "of-the-options",
        "first line",
        "second line",
        "of-the-instance",
        "of-the-environment",
        "of-the-conf",
    }
    assert not secrets & {"the-host", "the-topic", "the-b"}


def test_lines_are_recorded_only_inside_the_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert recent_lines() == []
    with recording(nothing_known):
        print("inside", file=sys.stderr)
        assert recent_lines() == ["inside"]
    print("after", file=sys.stderr)
    assert recent_lines() == []
    assert capsys.readouterr().err == "inside\nafter\n"


def test_no_lines_are_given_when_the_secrets_are_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    def unknown() -> Redaction:
        raise ValueError("an attribute of the author's")

    with recording(unknown):
        print("password", file=sys.stderr)
        assert recent_lines() == []


class Logs(Receiver[int]):
    """Logs in each of the usual ways, and fails with an error that it reports first."""

    def __init__(self) -> None:
        self.password = "open-sesame"

    def onStart(self) -> None:
        print("printed", file=sys.stderr)
        # As without any configuration of logging; pytest configures it.
        assert logging.lastResort is not None
        logging.lastResort.handle(logging.makeLogRecord({"msg": "logged with open-sesame", "levelno": logging.ERROR}))
        self.reportError("first", ValueError("of the source"))
        raise ValueError("the receiver's own")

    def onStop(self) -> None:
        """Nothing to stop."""


@pytest.fixture
def tracker(log: EventLog, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Iterable[FakeTracker]:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    tracker = FakeTracker(log)
    yield tracker
    tracker.endpoint.stop()
    penstock_log.configure("WARNING")


def test_error_reports_carry_the_last_lines_without_secrets(
    tracker: FakeTracker, log: EventLog, capsys: pytest.CaptureFixture[str]
) -> None:
    list(tracker.task(Logs())(0, []))
    (report,), (end,) = log.of(ReportError), log.of(DeregisterReceiver)
    for message in (report, end):
        assert message.log_lines[:2] == ["printed", "logged with ***"]
    assert "printed" in capsys.readouterr().err
    assert tracker.token.secret not in str(log.entries)
