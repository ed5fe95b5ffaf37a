"""Each mutant fails its check with the expected words; the references pass every check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from pyspark.streaming import StreamingListener
from tests.mutants import block_store, listener, rate_estimator, receiver_references
from tests.mutants.line_receiver import LineFeeder, LineReceiver
from tests.mutants.mutant import Mutant, all_mutants
from tests.mutants.receiver_rate import CountsDropped
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver, SteadyEstimator

from penstock import ListenerContext
from penstock.testing import Capabilities, Feeder, MemoryFeeder, run_checks
from penstock.testing.check import checks_for


@pytest.mark.parametrize("mutant", [pytest.param(each, id=each.id) for each in all_mutants()])
def test_mutant_fails_its_check(mutant: Mutant) -> None:
    report = mutant.run([mutant.check], mutant.scale)
    assert report[mutant.check].outcome == "failed"
    assert mutant.words in report[mutant.check].seen


def test_reference_receiver_passes_every_check() -> None:
    report = run_checks("receiver", MemoryReceiver, MemoryFeeder, capabilities=MEMORY_RECEIVER)
    assert report.ok, report.text()
    assert report.grade == "hardened"


@pytest.mark.parametrize(
    ("make", "feeder", "capabilities"),
    [
        pytest.param(*each, id=each[0].__name__)
        for each in (*receiver_references.ALL, (LineReceiver, LineFeeder, Capabilities()))
    ],
)
def test_other_reference_receivers_pass_every_receiver_check(
    make: Callable[..., Any], feeder: Callable[[], Feeder], capabilities: Capabilities
) -> None:
    only = [check.id for check in checks_for("receiver") if check.kind == "receiver"]
    report = run_checks("receiver", make, feeder, only, capabilities=capabilities)
    assert report.ok, report.text()
    assert report.grade == "hardened"


def test_receiver_that_says_how_many_records_it_drops_passes() -> None:
    drops = evolve(MEMORY_RECEIVER, drops=True)
    report = run_checks("receiver", CountsDropped, MemoryFeeder, ["RC-24"], capabilities=drops)
    assert report["RC-24"].outcome == "passed", report.text()


def test_reference_block_store_passes_every_check() -> None:
    report = run_checks("block-store", block_store.FileStore, capabilities=block_store.ALL)
    assert report.ok, report.text()
    assert report.grade == "hardened"


def test_reference_estimator_passes_every_check() -> None:
    report = run_checks("rate-estimator", SteadyEstimator, capabilities=rate_estimator.RESTORES)
    assert report.ok, report.text()
    assert report.grade == "hardened"


def test_reference_listener_passes_every_check() -> None:
    report = run_checks("listener", listener.exports(), capabilities=listener.EXPORTS)
    assert report.ok, report.text()
    assert report.grade == "hardened"


class PySparkListener(StreamingListener):
    """Reads events as PySpark's listeners do."""

    def __init__(self, _context: ListenerContext) -> None:
        super().__init__()
        self.delays: list[int] = []

    def onBatchCompleted(self, batchCompleted: object) -> None:
        info = batchCompleted.batchInfo()  # type: ignore[attr-defined]  # a view
        self.delays.append(info.processingDelay() + info.batchTime().milliseconds())


def test_pyspark_listener_passes_every_check_that_is_applicable() -> None:
    report = run_checks("listener", PySparkListener)
    assert report.ok, report.text()
