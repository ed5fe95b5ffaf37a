"""The driver is killed (-9), then its JVM, and restarted: a short run of ``benchmarks/crash.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.programs]

COMMAND = Path(__file__).parents[3] / "benchmarks" / "crash.py"


def crash(*arguments: str) -> str:
    """What the program prints that kills drivers; it has found nothing wrong."""
    run = subprocess.run([sys.executable, str(COMMAND), *arguments], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    for line in (
        "exit code of the last run: 0",
        "lost: 0",
        "batches missing: 0",
        "batches that differ when run again: 0",
        "wrong states and windows: 0",
    ):
        assert line in run.stdout
    return run.stdout


# Several programs, one after the other; on a busy machine each takes its time.
@pytest.mark.timeout(620)
def test_killed_drivers_lose_no_record_and_corrupt_no_state() -> None:
    printed = crash("--kills", "2", "--seed", "905")
    assert "of them of the JVM: 1" in printed
    assert "of them after the first acknowledgement: 2" in printed


# Two cores are the least: one is the receiver's. Others have more slots than the state has partitions, and fewer.
@pytest.mark.timeout(620)
@pytest.mark.parametrize("rebuild", ["false", "true"], ids=["saved program", "rebuilt program"])
def test_program_recovers_on_other_numbers_of_cores(rebuild: str) -> None:
    conf = f"spark.penstock.checkpoint.rebuild={rebuild}"
    printed = crash("--kills", "2", "--seed", "905", "--interval", "3", "--cores", "2", "7", "3", "--conf", conf)
    assert "of them after the first acknowledgement: 2" in printed
