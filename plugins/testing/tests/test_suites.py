"""Suites as test classes: which tests they have, and how these skip."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
import unittest
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from penstock_testing.kit import ReceiverKit
from tests.helpers.forked import run_module
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver, SteadyEstimator

from penstock_testing import (
    CheckFailure,
    ConformanceSuite,
    MemoryFeeder,
    RateEstimatorSuite,
    ReceiverSuite,
    Report,
    Result,
    run_checks,
)
from penstock_testing.check import Kind, checks_for


def _tests_of(cls: type[ConformanceSuite]) -> list[str]:
    return [name for name in dir(cls) if name.startswith("test_")]


def test_suite_may_repeat_its_kind() -> None:
    class WithKind(ReceiverSuite):
        kind = "receiver"

    assert len(_tests_of(WithKind)) == len(checks_for("receiver"))
    assert WithKind.results == {}


def test_base_classes_have_no_test_of_a_check() -> None:
    assert _tests_of(ReceiverSuite) == []


def test_override_of_a_checks_test_is_refused() -> None:
    with pytest.raises(TypeError, match="Overrides overrides the tests of RE-01: use expected_failures"):

        class Overrides(RateEstimatorSuite):
            def test_RE_01_none_or_finite_positive(self) -> None:
                """Never runs."""


@pytest.mark.parametrize("excused", [False, True])
def test_not_run_and_excused_are_skips_for_unittest(monkeypatch: pytest.MonkeyPatch, excused: bool) -> None:
    # pytest is imported, and does not run the test.
    monkeypatch.delenv("PYTEST_CURRENT_TEST")

    class Case(RateEstimatorSuite, unittest.TestCase):
        make = (lambda self: 1) if excused else SteadyEstimator
        expected_failures: ClassVar[Mapping[str, str]] = {"RE-01": "the reason"}

    outcome = unittest.TestResult()
    Case("test_RE_01_none_or_finite_positive" if excused else "test_XX_01_word_count_end_to_end").run(outcome)
    assert (len(outcome.errors), len(outcome.failures), len(outcome.skipped)) == (0, 0, 1), outcome


class _Forks(MemoryReceiver):
    """Forks in onStart, as multiprocessing does; the child ends by ``os._exit``."""

    def onStart(self) -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        super().onStart()


class _Exits(MemoryReceiver):
    def onStart(self) -> None:
        os._exit(3)


@pytest.mark.parametrize(("make", "outcome"), [(_Forks, "passed"), (_Exits, "failed")])
def test_only_an_exit_of_the_process_itself_fails(make: Callable[..., Any], outcome: str) -> None:
    report = run_checks("receiver", make, MemoryFeeder, ["RC-02"], capabilities=MEMORY_RECEIVER)
    assert report["RC-02"].outcome == outcome, report.text()


class _Kills(SteadyEstimator):
    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        os.kill(os.getpid(), signal.SIGKILL)
        return None


@pytest.mark.parametrize("by_variable", [False, True])
def test_isolated_suite_reports_a_plugin_that_ends_its_process(
    monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    class Isolated(RateEstimatorSuite):
        make = _Kills
        isolated = not by_variable

    if by_variable:
        monkeypatch.setenv("PENSTOCK_TEST_ISOLATED", "1")
    with pytest.raises(CheckFailure, match="the process of the check was killed by SIGKILL"):
        Isolated().test_RE_01_none_or_finite_positive()  # type: ignore[attr-defined]
    assert Isolated.run_checks(["RE-01"])["RE-01"].outcome == "failed"


class _Leaves(SteadyEstimator):
    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        ctypes.CDLL(None)._exit(5)
        return None


def test_isolated_run_reports_the_exit_status_of_a_process_that_a_library_ended() -> None:
    report = run_checks("rate-estimator", _Leaves, only=["RE-01", "PK-12"], isolated=True)
    assert report["RE-01"].seen == "the process of the check ended with exit status 5"
    assert report["PK-12"].outcome == "not applicable"


def test_isolated_run_continues_in_a_new_process_after_a_check_that_hangs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "processes"

    def hangs_once(batch_interval_ms: int) -> SteadyEstimator:
        is_first = not log.exists()
        with log.open("a") as file:
            print(os.getpid(), file=file)
        if is_first:
            threading.Event().wait(60)
        return SteadyEstimator(batch_interval_ms)

    monkeypatch.setenv("PENSTOCK_TEST_SCALE", "0.1")
    report = run_checks("rate-estimator", hangs_once, only=["RE-01", "RE-03"], isolated=True)
    assert [each.outcome for each in report.results] == ["failed", "passed"], report.text()
    assert "the check did not end within its time limit of 2 s" in report["RE-01"].seen
    assert len(set(log.read_text().split())) == 2


class _Spins(SteadyEstimator):
    """Never returns the first time, and prints, uses the processor and changes the environment until it is told."""

    go_on, processes = threading.Event(), list[int]()

    def __init__(self, batch_interval_ms: int) -> None:
        super().__init__(batch_interval_ms)
        is_first = not self.processes
        self.processes.append(os.getpid())
        while is_first and not self.go_on.is_set():
            os.environ["OF_THE_CHECK_BEFORE"] = str(time.monotonic())


@pytest.fixture
def spinning() -> Iterator[type[_Spins]]:
    _Spins.go_on.clear()
    _Spins.processes.clear()
    yield _Spins
    _Spins.go_on.set()
    for thread in threading.enumerate():
        if thread.name.startswith("penstock kit"):
            thread.join(10)
    os.environ.pop("OF_THE_CHECK_BEFORE", None)


def test_check_after_one_that_hangs_runs_in_another_process(
    monkeypatch: pytest.MonkeyPatch, spinning: type[_Spins]
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_SCALE", "0.1")
    report = run_checks("rate-estimator", spinning, only=["RE-01", "RE-22", "RE-03"])
    assert [each.outcome for each in report.results] == ["failed", "passed", "passed"], report.text()
    # Of the others, which ran elsewhere, this process knows nothing.
    assert spinning.processes == [os.getpid()]


def test_test_of_a_suite_after_one_that_hangs_runs_in_another_process(
    monkeypatch: pytest.MonkeyPatch, spinning: type[_Spins]
) -> None:
    class Suite(RateEstimatorSuite):
        make = spinning

    monkeypatch.setenv("PENSTOCK_TEST_SCALE", "0.1")
    with pytest.raises(CheckFailure, match="did not end within its time limit"):
        Suite().test_RE_01_none_or_finite_positive()  # type: ignore[attr-defined]
    Suite().test_RE_22_cheap_and_pure()  # type: ignore[attr-defined]
    assert spinning.processes == [os.getpid()]
    spinning.go_on.set()


def test_preparation_of_a_check_is_outside_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    monkeypatch.setattr(ReceiverKit, "prepare", lambda subject: threads.append(threading.current_thread()))
    run_checks("receiver", MemoryReceiver, MemoryFeeder, ["RC-01"], capabilities=MEMORY_RECEIVER)
    assert threads == [threading.current_thread()]


_SHRUNK = """
from penstock import RateEstimator
from penstock_testing import RateEstimatorSuite, Result, suites

suites.run_check = lambda subject, check: Result.of(check, "passed")

class TestShrunk(RateEstimatorSuite):
    make = RateEstimator
"""


@pytest.mark.parametrize(
    ("option", "status", "words"),
    [
        (
            "--deselect=test_shrunk.py::TestShrunk::test_RE_01_none_or_finite_positive",
            1,
            "INCOMPLETE: only 44 of 45 checks have run",
        ),
        ("-k=RE_0", 0, "9 selected; seed 0."),
    ],
)
def test_suite_that_lost_a_check_fails_the_run(tmp_path: Path, option: str, status: int, words: str) -> None:
    (tmp_path / "test_shrunk.py").write_text(_SHRUNK)
    ended = run_module("pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", option, "test_shrunk.py", cwd=tmp_path)
    assert words in ended.stdout, ended.stdout
    assert ended.returncode == status, ended.stdout


def _report(kind: Kind, *not_applicable: str, excused: str = "", selected: bool = False) -> Report:
    results = tuple(
        Result.of(
            each, "not applicable" if each.id in not_applicable else "excused" if each.id == excused else "passed"
        )
        for each in checks_for(kind)
    )
    return Report(kind, "it", 0, None if selected else len(results), results)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (_report("receiver"), "grade: hardened; seed"),
        (_report("receiver", excused="RC-06"), "grade: hardened (1 excused); seed"),
        (_report("receiver", "RC-10"), "grade: loads (nothing that needs data was tested: give a suite with a feeder)"),
        (
            _report("listener", "LI-06", "LI-11"),
            "grade: loads (nothing that it counts was tested: return a ListenerProbe",
        ),
        (_report("receiver", selected=True), "67 selected; seed"),
    ],
    ids=["complete", "excused", "no feeder", "no probe", "selected"],
)
def test_grade_says_what_was_tested(report: Report, words: str) -> None:
    assert words in report.summary()
