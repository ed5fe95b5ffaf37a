"""Suites as test classes: which tests they have, and how these skip."""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver, SteadyEstimator

from penstock.testing import ConformanceSuite, MemoryFeeder, RateEstimatorSuite, ReceiverSuite, run_checks
from penstock.testing.check import checks_for


def _tests_of(cls: type[ConformanceSuite]) -> list[str]:
    return [name for name in dir(cls) if name.startswith("test_")]


def test_suite_may_repeat_its_kind() -> None:
    class WithKind(ReceiverSuite):
        kind = "receiver"

    assert len(_tests_of(WithKind)) == len(checks_for("receiver")) + 1
    assert WithKind.results == {}


def test_base_classes_have_no_test_of_a_check() -> None:
    assert _tests_of(ReceiverSuite) == ["test_every_check_is_present"]


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
