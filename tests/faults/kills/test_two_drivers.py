"""A driver is suspended while another one takes its checkpoint directory: a round of ``benchmarks/two_drivers.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.programs]

ROOT = Path(__file__).parents[3]


# Two programs at a time; on a busy machine each takes its time.
@pytest.mark.timeout(620)
def test_suspended_driver_that_continues_acknowledges_and_deletes_nothing() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.two_drivers", "--rounds", "1"],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    for line in (
        "lost: 0",
        "acknowledged without a claim: 0",
        "exit code of the last driver: 0",
        "batches missing: 0",
        "batches that differ when run again: 0",
        "wrong states and windows: 0",
    ):
        assert line in run.stdout
