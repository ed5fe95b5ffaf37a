"""The memory of a receiver's worker stays, before a job that is far too slow; at length, the command says."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.forked import run_module
from tests.helpers.shared_jvm import SharedJvm

pytestmark = [pytest.mark.spark, pytest.mark.programs]

ROOT = Path(__file__).parents[2]


def test_receiver_memory_stays_flat_while_batches_are_ten_times_too_slow(shared_jvm: SharedJvm) -> None:
    shared_jvm.prepare({})
    ran = run_module(
        "benchmarks.receiver_memory",
        "12",
        "spark.penstock.blocks.maxUnprocessed=16m",
        cwd=ROOT,
        env=shared_jvm.environment,
    )
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout
    assert "records in batches" in ran.stdout
