"""Suites as test classes: which tests pytest collects, how they end, and what the summary says."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.helpers.forked import run_module
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver, SteadyEstimator

from penstock import hookimpl
from penstock_testing import (
    ConformanceSuite,
    MemoryFeeder,
    RateEstimatorSuite,
    ReceiverSuite,
    Report,
    Result,
    checks_for,
    run_checks,
    run_suite,
)
from penstock_testing.check import Kind


def _tests_of(cls: type[ConformanceSuite]) -> list[str]:
    return [name for name in dir(cls) if name.startswith("test_")]


def test_suite_has_one_test_for_each_check() -> None:
    class Suite(ReceiverSuite):
        kind = "receiver"

    assert sorted(_tests_of(Suite)) == sorted(check.function.__name__ for check in checks_for("receiver"))


def test_override_of_a_checks_test_is_refused() -> None:
    with pytest.raises(TypeError, match="Overrides overrides the tests of RE-01: use expected_failures"):

        class Overrides(RateEstimatorSuite):
            def test_RE_01_none_or_finite_positive(self) -> None:  # type: ignore[override]  # that is what is refused
                """Never runs."""


_SUITE = """
import os, pytest
from penstock import RateEstimator
from penstock_testing import RateEstimatorSuite

class Constant(RateEstimator):
    def compute(self, time, numElements, processingDelay, schedulingDelay):
        return BODY

class TestIt(RateEstimatorSuite):
    make = lambda self: Constant()
    MORE
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Runs pytest on a suite for an estimator with this body; returns the exit status and the output."""

    def run(body: str, *options: str, more: str = "") -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(_SUITE.replace("BODY", body).replace("MORE", more))
        ended = run_module(
            "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", *options, "test_it.py", cwd=tmp_path
        )
        return ended.returncode, ended.stdout

    return run


def test_failure_is_reported_with_its_evidence_by_pytest(run: Callable[..., tuple[int, str]]) -> None:
    status, output = run("-1.0", "-k=RE_01")
    assert status == 1
    assert "RE-01 none_or_finite_positive (must): failed" in output
    assert "  seen:           compute returned -1.0" in output
    assert "  change: " in output
    assert '  excuse:         expected_failures = {"RE-01": "the reason"}' in output
    assert (
        "TestIt (rate-estimator): 1 run, 0 not applicable, 0 excused, 1 failed (RE-01); 1 selected; seed 0." in output
    )


def test_levels_and_capabilities_are_markers(run: Callable[..., tuple[int, str]]) -> None:
    status, output = run("1.0", "-m=should and not capability", "--collect-only")
    assert status == 0
    assert "test_RE_22_cheap_and_pure" in output
    assert "test_RE_01" not in output
    status, output = run("1.0", "-k=RE_20", "-rs")
    assert "Capabilities.restores is not set" in output


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("-1.0", 0, "1 run, 0 not applicable, 1 excused, 0 failed"),
        ("1.0", 1, "the check passes, although expected_failures lists it: a bug"),
    ],
    ids=["fails as expected", "passes"],
)
def test_expected_failure_is_strict(run: Callable[..., tuple[int, str]], body: str, status: int, words: str) -> None:
    ended, output = run(body, "-k=RE_01", more='expected_failures = {"RE-01": "a bug"}')
    assert words in output
    assert ended == status


def test_failure_of_level_may_does_not_fail_the_run(run: Callable[..., tuple[int, str]]) -> None:
    status, output = run("1.0", "-k=RE_24")
    assert "1 failed (RE-24); 1 selected" in output
    assert status == 0


def test_isolated_suite_survives_a_plugin_that_ends_the_process(run: Callable[..., tuple[int, str]]) -> None:
    status, output = run("os.kill(os.getpid(), 9)", "-k=RE_01 or PK_12", more="isolated = True")
    assert "the process of the check was killed by SIGKILL" in output
    assert "1 run, 1 not applicable, 0 excused, 1 failed (RE-01); 2 selected" in output
    assert status == 1


@pytest.mark.parametrize(
    ("option", "status", "words"),
    [
        (
            "--deselect=test_it.py::TestIt::test_RE_01_none_or_finite_positive",
            1,
            "INCOMPLETE: only 45 of 46 checks have run",
        ),
        ("-k=RE_0", 0, "9 selected; seed 0."),
    ],
)
def test_suite_that_lost_a_check_fails_the_run(
    run: Callable[..., tuple[int, str]], option: str, status: int, words: str
) -> None:
    # Nothing is made, so that every check is skipped, which takes no time.
    ended, output = run("1.0", option, more="def make(self, _interval): pytest.skip('not made')")
    assert words in output, output
    assert ended == status


def test_suite_may_have_tests_of_its_own(run: Callable[..., tuple[int, str]]) -> None:
    own = "def test_constancy(self): assert self.make().compute(0, 1, 1, 0) == 1.0"
    status, output = run("1.0", "-k=RE_01 or constancy", more=own)
    assert "2 passed" in output
    assert status == 0

    class Own(RateEstimatorSuite):
        make = SteadyEstimator

        def test_own(self) -> None:
            raise AssertionError("not a check")

    assert [result.id for result in run_suite(Own, ["RE-01"]).results] == ["RE-01"]


class _Kills(SteadyEstimator):
    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        os.kill(os.getpid(), signal.SIGKILL)
        return None


class _Leaves(SteadyEstimator):
    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        ctypes.CDLL(None)._exit(5)
        return None


@pytest.mark.parametrize(
    ("make", "by_variable", "seen"),
    [
        (_Kills, False, "the process of the check was killed by SIGKILL"),
        (_Kills, True, "the process of the check was killed by SIGKILL"),
        (_Leaves, False, "the process of the check ended with exit status 5"),
    ],
    ids=["killed", "killed by variable", "left"],
)
def test_isolated_run_reports_how_the_process_ended(
    monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any], by_variable: bool, seen: str
) -> None:
    if by_variable:
        monkeypatch.setenv("PENSTOCK_TEST_ISOLATED", "1")
    report = run_checks("rate-estimator", make, only=["RE-01", "PK-12"], isolated=not by_variable)
    assert report["RE-01"].seen == seen
    assert report["PK-12"].outcome == "not applicable"


class _Forks(MemoryReceiver):
    """Forks in onStart, as multiprocessing does; the child ends by ``os._exit``."""

    def onStart(self) -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        super().onStart()


def test_process_that_the_plugin_forks_may_end() -> None:
    report = run_checks("receiver", _Forks, MemoryFeeder, ["RC-02"], capabilities=MEMORY_RECEIVER, isolated=True)
    assert report["RC-02"].outcome == "passed", report.text()


@pytest.mark.parametrize("isolated", [False, True])
def test_check_that_hangs_fails_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, isolated: bool
) -> None:
    log = tmp_path / "made"

    def hangs_once(batch_interval_ms: int) -> SteadyEstimator:
        if not log.exists():
            log.touch()
            threading.Event().wait(60)
        return SteadyEstimator(batch_interval_ms)

    monkeypatch.setenv("PENSTOCK_TEST_SCALE", "0.1")
    report = run_checks("rate-estimator", hangs_once, only=["RE-01", "RE-03"], isolated=isolated)
    assert [result.outcome for result in report.results] == ["failed", "passed"], report.text()
    assert "the check did not end within its time limit of 2 s" in report["RE-01"].seen
    assert "in hangs_once" in report["RE-01"].seen


def test_run_of_checks_keeps_the_time_limit_of_the_calling_test() -> None:
    before = signal.getitimer(signal.ITIMER_REAL)[0]
    run_checks("rate-estimator", SteadyEstimator, only=["RE-01"])
    after = signal.getitimer(signal.ITIMER_REAL)[0]
    assert before > 0
    assert before - 60 < after <= before


def _report(kind: Kind, *not_applicable: str, excused: str = "", selected: bool = False) -> Report:
    results = tuple(
        Result.of(
            check, "not applicable" if check.id in not_applicable else "excused" if check.id == excused else "passed"
        )
        for check in checks_for(kind)
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
        (_report("receiver", selected=True), "77 selected; seed"),
    ],
    ids=["complete", "excused", "no feeder", "no probe", "selected"],
)
def test_grade_says_what_was_tested(report: Report, words: str) -> None:
    assert words in report.summary()


def test_grade_says_that_live_checks_have_not_run() -> None:
    report = run_checks("rate-estimator", SteadyEstimator)
    assert "6 live checks not run: pass --live, or set live=True" in report.untested
    assert "6 live checks not run: pass --live, or set live=True); seed" in report.summary()


class RaisingListener:
    def onBatchCompleted(self, batchCompleted: object) -> None:
        raise RuntimeError("boom")


class RaisingStore:
    @hookimpl
    def store(self, block: object) -> None:
        raise RuntimeError("boom")


def _raise(*_arguments: object) -> NoReturn:
    raise RuntimeError("boom")


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("listener", lambda _context: RaisingListener()),
        ("listener", _raise),
        ("block-store", lambda _folder: RaisingStore()),
        ("rate-estimator", _raise),
        ("receiver", _raise),
    ],
)
def test_advice_after_an_exception_of_the_plugin_is_to_fix_it(kind: Kind, make: Callable[..., Any]) -> None:
    own = [check.id for check in checks_for(kind) if check.kind == kind]
    failed = [result for result in run_checks(kind, make, only=own).failed if "RuntimeError: boom" in result.seen]
    assert failed
    advice = {result.change.rpartition(" ")[0] for result in failed}
    assert advice == {"fix the cause of the RuntimeError, raised in test_suites.py, line"}
