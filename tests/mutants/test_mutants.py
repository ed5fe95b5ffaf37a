"""Each mutant fails its check with the expected words; the references pass every check."""

from __future__ import annotations

import pytest
from tests.mutants import block_store, receiver_lifecycle
from tests.mutants.mutant import Mutant
from tests.mutants.references import MEMORY_RECEIVER, MemoryReceiver

from penstock.testing import MemoryFeeder, run_checks

MUTANTS = [
    *block_store.MUTANTS,
    *receiver_lifecycle.MUTANTS,
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


def test_reference_receiver_passes_every_check() -> None:
    report = run_checks("receiver", MemoryReceiver, MemoryFeeder, capabilities=MEMORY_RECEIVER)
    assert report.ok, report.text()
    assert report.grade == "hardened"


def test_reference_block_store_passes_every_check() -> None:
    report = run_checks("block-store", block_store.FileStore, capabilities=block_store.ALL)
    assert report.ok, report.text()
    assert report.grade == "hardened"
