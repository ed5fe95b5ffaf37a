"""The memory of a receiver's worker stays, before a job that is far too slow; at length, the command says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.shared_jvm import SharedJvm

pytestmark = [pytest.mark.spark, pytest.mark.faults]

COMMAND = Path(__file__).parents[2] / "benchmarks" / "receiver_memory.py"


def test_receiver_memory_stays_flat_while_batches_are_ten_times_too_slow(shared_jvm: SharedJvm) -> None:
    shared_jvm.prepare({})
    ran = subprocess.run(
        [sys.executable, COMMAND, "12", "spark.penstock.blocks.maxUnprocessed=16m"],
        env=shared_jvm.environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "records in batches" in ran.stdout
