"""Each mutant fails its check with the expected words; the references pass every check."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from attrs import evolve
from tests.helpers.forked import process_pool
from tests.mutants import block_store, rate_estimator, receiver_references, table
from tests.mutants.broker_receiver import BROKER_RECEIVER, BrokerReceiver
from tests.mutants.line_receiver import LineFeeder, LineReceiver
from tests.mutants.mutant import all_mutants
from tests.mutants.receiver_rate import CountsDropped
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver, SteadyEstimator

from penstock_testing import Capabilities, MemoryBrokerFeeder, MemoryFeeder, checks_for, run_checks

# For the whole kit on one plugin, without the live checks, in processor times of a loop: on a busy machine both grow.
# Receivers took 11, rate estimators and block stores less.
BUDGET_LOOPS = 60


MUTANTS = {mutant.id: mutant for mutant in all_mutants()}
RECEIVERS = {
    reference[0].__name__: reference
    for reference in (
        *receiver_references.ALL,
        (LineReceiver, LineFeeder, Capabilities()),
        (BrokerReceiver, MemoryBrokerFeeder, BROKER_RECEIVER),
    )
}
# The checks wait more than they compute.
WORKERS = 3


def run_mutant(name: str) -> tuple[str, str]:
    """The outcome of a mutant's own check, and what the check saw."""
    mutant = MUTANTS[name]
    result = mutant.run([mutant.check], mutant.scale)[mutant.check]
    return result.outcome, result.seen


def run_receiver(name: str) -> tuple[list[str], str]:
    """The receiver checks that a reference does not pass, and the report."""
    make, feeder, capabilities = RECEIVERS[name]
    only = [check.id for check in checks_for("receiver") if check.kind == "receiver"]
    report = run_checks("receiver", make, feeder, only, capabilities=capabilities)
    return [result.id for result in report.failed] if report.ok else ["the run"], report.text()


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Any]]]:
    """What the selected tests of this module have run in a few processes that they share."""
    with process_pool(WORKERS) as pool:
        selected = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
        names = {name for parameters in selected for name in parameters.values() if isinstance(name, str)}
        receivers = {name: run_receiver for name in RECEIVERS if name in names}
        mutants = {name: run_mutant for name in MUTANTS if name in names}
        yield {name: pool.submit(run, name) for name, run in (receivers | mutants).items()}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("receiver", RECEIVERS)
def test_other_reference_receivers_pass_every_receiver_check(receiver: str, runs: dict[str, Future[Any]]) -> None:
    failed, text = runs[receiver].result()
    assert failed == [], text


@pytest.mark.parametrize("mutant_id", MUTANTS)
def test_mutant_fails_its_check(mutant_id: str, runs: dict[str, Future[Any]]) -> None:
    outcome, seen = runs[mutant_id].result()
    assert outcome == "failed"
    assert MUTANTS[mutant_id].words in seen


def test_table_is_the_generated_one() -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), "run: python -m tests.mutants.table"


def test_mutant_that_fails_other_checks_says_why() -> None:
    assert [name for name, mutant in MUTANTS.items() if mutant.also and not mutant.because] == []


REFERENCES: dict[str, dict[str, Any]] = {
    "receiver": {"make": MemoryReceiver, "feeder": MemoryFeeder, "capabilities": MEMORY_RECEIVER},
    "rate-estimator": {"make": SteadyEstimator, "capabilities": rate_estimator.RESTORES},
    "block-store": {"make": block_store.Observes},
}


def processor_s_of_a_loop() -> float:
    before = time.process_time()
    sum(number % 7 for number in range(3_000_000))
    return time.process_time() - before


@pytest.mark.parametrize("kind", REFERENCES)
def test_reference_passes_every_check_in_budget(kind: str) -> None:  # KK-02, KK-05
    loop_s, before = processor_s_of_a_loop(), sum(os.times()[:4])
    report = run_checks(kind, **REFERENCES[kind])
    used_s = sum(os.times()[:4]) - before
    assert used_s < BUDGET_LOOPS * max(loop_s, processor_s_of_a_loop())
    assert report.ok, report.text()
    assert report.grade == "hardened"


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
