"""Each mutant fails its check with the expected words; the references pass every check."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from tests.mutants import block_store, rate_estimator, receiver_references, table
from tests.mutants.line_receiver import LineFeeder, LineReceiver
from tests.mutants.mutant import Mutant, all_mutants
from tests.mutants.receiver_rate import CountsDropped
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver, SteadyEstimator

from penstock_testing import Capabilities, Feeder, MemoryFeeder, checks_for, run_checks

# For the whole kit on one plugin, without the live checks: processor time, which a busy machine does not stretch much.
BUDGET_CPU_S = 10


@pytest.mark.parametrize("mutant", [pytest.param(mutant, id=mutant.id) for mutant in all_mutants()])
def test_mutant_fails_its_check(mutant: Mutant) -> None:
    report = mutant.run([mutant.check], mutant.scale)
    assert report[mutant.check].outcome == "failed"
    assert mutant.words in report[mutant.check].seen


def test_table_is_the_generated_one() -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), "run: python -m tests.mutants.table"


@pytest.mark.parametrize("mutant", [pytest.param(mutant, id=mutant.id) for mutant in all_mutants() if mutant.also])
def test_mutant_that_fails_other_checks_says_why(mutant: Mutant) -> None:
    assert mutant.because


REFERENCES: dict[str, dict[str, Any]] = {
    "receiver": {"make": MemoryReceiver, "feeder": MemoryFeeder, "capabilities": MEMORY_RECEIVER},
    "rate-estimator": {"make": SteadyEstimator, "capabilities": rate_estimator.RESTORES},
    "block-store": {"make": block_store.Observes},
}


@pytest.mark.parametrize("kind", REFERENCES)
def test_reference_passes_every_check_in_budget(kind: str) -> None:  # KK-02, KK-05
    before = sum(os.times()[:4])
    report = run_checks(kind, **REFERENCES[kind])
    assert sum(os.times()[:4]) - before < BUDGET_CPU_S
    assert report.ok, report.text()
    assert report.grade == "hardened"


@pytest.mark.parametrize(
    ("make", "feeder", "capabilities"),
    [
        pytest.param(*reference, id=reference[0].__name__)
        for reference in (*receiver_references.ALL, (LineReceiver, LineFeeder, Capabilities()))
    ],
)
def test_other_reference_receivers_pass_every_receiver_check(
    make: Callable[..., Any], feeder: Callable[[], Feeder], capabilities: Capabilities
) -> None:
    only = [check.id for check in checks_for("receiver") if check.kind == "receiver"]
    report = run_checks("receiver", make, feeder, only, capabilities=capabilities)
    assert report.ok, report.text()
    assert report.failed == []


def test_clock_that_a_callback_of_the_collector_reads_is_not_the_estimators() -> None:
    def callback(_phase: str, _info: dict[str, int]) -> None:
        time.perf_counter()

    before = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(1)
    try:
        report = run_checks("rate-estimator", SteadyEstimator, only=["RE-19"], capabilities=rate_estimator.RESTORES)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(callback)
    assert report["RE-19"].outcome == "passed", report.text()


def test_receiver_that_says_how_many_records_it_drops_passes() -> None:
    drops = evolve(MEMORY_RECEIVER, drops=True)
    report = run_checks("receiver", CountsDropped, MemoryFeeder, ["RC-24"], capabilities=drops)
    assert report["RC-24"].outcome == "passed", report.text()
