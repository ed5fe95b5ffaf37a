"""A streaming query over a receiver is killed (-9) and restarted: a short run of ``benchmarks.structured_crash``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.java_options import DAEMON_FOLDER

pytestmark = [pytest.mark.spark, pytest.mark.programs]

ROOT = Path(__file__).parents[3]


# Three programs, one after the other; on a busy machine each takes its time.
@pytest.mark.timeout(620)
def test_killed_queries_lose_no_acknowledged_record_and_repeat_none() -> None:
    # A query's workers get no configuration of executors, which names the folder of the tests' daemon.
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(DAEMON_FOLDER)]))
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.structured_crash", "--kills", "2", "--seed", "4"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    for line in (
        "exit code of the last run: 0",
        "lost: 0",
        "stored once, seen twice: 0",
        "batches that differ when run again: 0",
    ):
        assert line in run.stdout
