"""What the checks of sessions, and the reports of all checks, make of a test source."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import pyarrow as pa
import pytest
from tests.mutants.broker_receiver import BROKER_RECEIVER, BrokerReceiver
from tests.mutants.receiver_references import ArrowReceiver
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver

from penstock_structured.options import SourceOptions
from penstock_testing import (
    Capabilities,
    MemoryBrokerFeeder,
    MemoryFeeder,
    Report,
    Result,
    checks_for,
    run_checks,
)
from penstock_testing.checks.packaging_options import SOURCE_OPTIONS
from penstock_testing.memory_source import MemoryConnection

_SESSIONS = [f"RC-{number}" for number in range(47, 56)]


def test_reference_passes_every_check_of_sessions() -> None:
    report = run_checks(
        "receiver", BrokerReceiver, MemoryBrokerFeeder, _SESSIONS, capabilities=BROKER_RECEIVER, isolated=True
    )
    assert [result.outcome for result in report.results] == ["passed"] * 9, report.text()


class _Plain(MemoryBrokerFeeder):
    """A broker that shows neither leases nor anything else."""

    lease_s = None  # type: ignore[assignment]  # the broker's default serves
    rebalances = False
    lacks: ClassVar = {"rebalances": "it has one reader"}

    def __init__(self) -> None:
        self.broker = MemoryBrokerFeeder().broker

    def refused_acknowledgements(self) -> int:
        self.unable("refused_acknowledgements")

    def in_flight(self) -> int:
        self.unable("in_flight")

    def dead_letters(self) -> NoReturn:
        self.unable("dead_letters")


def test_check_that_a_test_source_cannot_serve_is_not_applicable_and_the_grade_says_so() -> None:
    # Whole: a run of selected checks has no grade.
    ran = run_checks("receiver", BrokerReceiver, _Plain, _SESSIONS, capabilities=BROKER_RECEIVER)
    skipped = {result.id: result.seen for result in ran.results if result.outcome == "not applicable"}
    assert skipped == {
        "RC-47": "_Plain has no refused_acknowledgements",
        "RC-48": "_Plain has no lease_s",
        "RC-49": "_Plain has no lease_s",
        "RC-51": "_Plain has no rebalances: it has one reader",
        "RC-53": "_Plain has no dead_letters",
        "RC-54": "_Plain has no in_flight",
    }
    own = {result.id: result for result in ran.results}
    checks = checks_for("receiver")
    whole = Report(
        "receiver", "it", 0, len(checks), tuple(own.get(each.id, Result.of(each, "passed")) for each in checks)
    )
    assert whole.untested == [
        "not tested: acknowledgements of an earlier session, leases, signs of life, rebalances, dead letters, "
        "prefetching (RC-47, RC-48, RC-49, RC-51, RC-53, RC-54: -rs says why)"
    ]
    assert whole.grade == "hardened"


def test_receiver_that_acknowledges_nothing_is_not_graded_for_leases() -> None:
    checks = checks_for("receiver")
    seen = "Capabilities.acknowledged is not set"
    results = [Result.of(each, "not applicable" if each.requires else "passed", seen=seen) for each in checks]
    assert Report("receiver", "it", 0, len(checks), tuple(results)).untested == []


# -- a test source that fails --


class _FailingFeeder(MemoryFeeder):
    def put(self, records: Sequence[Any]) -> None:
        if len(records) > 1:
            raise ConnectionError("the broker is full")
        super().put(records)


def test_error_of_the_test_source_is_reported_as_its_own() -> None:
    result = run_checks("receiver", MemoryReceiver, _FailingFeeder, ["RC-10"])["RC-10"]
    assert result.outcome == "failed"
    assert result.seen.startswith(
        "the test source failed, not the receiver: _FailingFeeder.put raised ConnectionError: the broker is full\n"
    )
    assert result.change.startswith("fix the cause of the ConnectionError, raised in test_receiver_sessions.py, line ")
    assert (result.rule, result.excuse) == ("The test source carries out what a check asks of it.", "")


class _BlockingFeeder(MemoryFeeder):
    """Waits during a pause until it is healed, as a client of a suspended server does."""

    def put(self, records: Sequence[Any]) -> None:
        # The source has no public wait: it stands for a server whose client waits.
        with self.source._changed:
            self.source._changed.wait_for(lambda: self.source._state != "paused")
        super().put(records)


def test_test_source_that_does_not_return_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_SCALE", "0.02")
    result = run_checks("receiver", MemoryReceiver, _BlockingFeeder, ["RC-46"])["RC-46"]
    assert result.seen.startswith(
        "the test source failed, not the receiver: _BlockingFeeder.put did not return\n"
        "the check did not end within its time limit of 0.4 s"
    )
    assert result.change == (
        "let _BlockingFeeder.put return: checks also put records during a pause, and while the receiver takes none"
    )


class _MakesNone(MemoryFeeder):
    def __init__(self) -> None:
        raise OSError("no free port")


def test_test_source_that_cannot_be_made_is_named() -> None:
    result = run_checks("receiver", MemoryReceiver, _MakesNone, ["RC-10"])["RC-10"]
    assert "the test source failed, not the receiver: _MakesNone.__init__ raised OSError: no free port" in result.seen


# -- columns that the source assigns --


class _WithOffset(ArrowReceiver):
    """Stores each value with its offset."""

    def take(self, connection: MemoryConnection, entries: list[tuple[int, Any]]) -> None:
        offsets, values = zip(*entries, strict=True)
        self.store_arrow(pa.table({"value": self.column(list(values)), "offset": pa.array(offsets)}))
        for position in offsets:
            connection.acknowledge(position)


class _AssignsOffset(MemoryFeeder):
    assigned_columns = ("offset",)


_CHECKED = ["RC-10", "RC-11", "RC-12", "RC-17", "RC-31", "RC-32", "RC-33", "RC-34", "RC-43", "RC-44", "RC-45"]


def test_rows_are_compared_without_the_columns_that_the_source_assigns() -> None:
    arrow = Capabilities(acknowledged=True, arrow=True)
    report = run_checks("receiver", _WithOffset, _AssignsOffset, _CHECKED, capabilities=arrow)
    assert {result.outcome for result in report.results} == {"passed"}, report.text()
    assert run_checks("receiver", _WithOffset, MemoryFeeder, ["RC-10"])["RC-10"].outcome == "failed"


# -- names of options --


def test_names_of_options_of_the_structured_streaming_source_are_its_own() -> None:
    import attrs

    assert {field.name.lower() for field in attrs.fields(SourceOptions)} == SOURCE_OPTIONS


def test_nothing_of_a_check_runs_on_after_a_stop_while_connecting() -> None:
    before = set(threading.enumerate())
    report = run_checks("receiver", MemoryReceiver, MemoryFeeder, ["RC-55"], capabilities=MEMORY_RECEIVER)
    assert report["RC-55"].outcome == "passed", report.text()
    assert {thread.name for thread in set(threading.enumerate()) - before} == set()
