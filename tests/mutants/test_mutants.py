"""Each mutant fails its check with the expected words; the references pass every check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.mutants import (
    block_store,
    rate_estimator,
    receiver_faults,
    receiver_guarantees,
    receiver_lifecycle,
    receiver_observability,
    receiver_positions,
    receiver_references,
)
from tests.mutants.mutant import Mutant
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver, SteadyEstimator

from penstock.testing import Capabilities, Feeder, MemoryFeeder, run_checks

MUTANTS = [
    *block_store.MUTANTS,
    *rate_estimator.MUTANTS,
    *receiver_lifecycle.MUTANTS,
    *receiver_faults.MUTANTS,
    *receiver_guarantees.MUTANTS,
    *receiver_positions.MUTANTS,
    *receiver_observability.MUTANTS,
]


@pytest.mark.parametrize("mutant", [pytest.param(each, id=each.id) for each in MUTANTS])
def test_mutant_fails_its_check(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_SCALE", str(mutant.scale))
    report = run_checks(
        mutant.kind,
        mutant.make,
        mutant.feeder,
        [mutant.check],
        capabilities=mutant.capabilities,
        **mutant.extra,
    )
    assert report[mutant.check].outcome == "failed"
    assert mutant.words in report[mutant.check].seen


@pytest.mark.parametrize(
    ("make", "feeder", "capabilities"),
    [
        pytest.param(make, feeder, capabilities, id=make.__name__)
        for make, feeder, capabilities in [(MemoryReceiver, MemoryFeeder, MEMORY_RECEIVER), *receiver_references.ALL]
    ],
)
def test_reference_receiver_passes_every_check(
    make: Callable[..., Any], feeder: Callable[[], Feeder], capabilities: Capabilities
) -> None:
    report = run_checks("receiver", make, feeder, capabilities=capabilities)
    assert report.ok, report.text()
    assert report.grade == "hardened"


def test_reference_block_store_passes_every_check() -> None:
    report = run_checks("block-store", block_store.FileStore, capabilities=block_store.ALL)
    assert report.ok, report.text()
    assert report.grade == "hardened"


def test_reference_estimator_passes_every_check() -> None:
    report = run_checks("rate-estimator", SteadyEstimator, capabilities=rate_estimator.RESTORES)
    assert report.ok, report.text()
    assert report.grade == "hardened"
