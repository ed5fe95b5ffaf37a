"""The driver is killed (-9), then its JVM, and restarted: a short run of ``benchmarks/crash.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.programs]

COMMAND = Path(__file__).parents[3] / "benchmarks" / "crash.py"


# Several programs, one after the other; on a busy machine each takes its time.
@pytest.mark.timeout(620)
def test_killed_drivers_lose_no_record_and_corrupt_no_state() -> None:
    run = subprocess.run(
        [sys.executable, str(COMMAND), "--kills", "2", "--seed", "905"], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stdout + run.stderr
    for line in (
        "of them of the JVM: 1",
        "of them after the first acknowledgement: 2",
        "exit code of the last run: 0",
        "lost: 0",
        "batches missing: 0",
        "batches that differ when run again: 0",
        "wrong states and windows: 0",
    ):
        assert line in run.stdout
