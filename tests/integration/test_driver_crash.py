"""The driver is killed (-9), then its JVM, and restarted: a short run of ``benchmarks/crash.py``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks import crash
from tests.helpers.forked import Fork

pytestmark = [pytest.mark.spark, pytest.mark.programs]

ROOT = Path(__file__).parents[2]
# The kills of this seed come 2.3 and 2.4 s after the first acknowledgement: each program has run a batch by then, and
# a later batch is pending. It generates a batch for each interval of its downtime, too: long intervals, few batches.
ARGUMENTS = ("--kills", "2", "--seed", "4697", "--interval", "2")


def launch(folder: Path, port: int, interval_s: float) -> Fork:
    """Launch the program in a fork, with a Java of its own."""
    arguments = ["--program", str(folder), "--port", str(port), "--interval", str(interval_s)]
    return Fork(Path(crash.__file__), arguments, cwd=ROOT, stdout=folder / "log")


# Several programs, one after the other; on a busy machine each takes its time.
@pytest.mark.timeout(620)
def test_killed_drivers_lose_no_record_and_corrupt_no_state(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(crash, "launch", launch)
    monkeypatch.setattr(sys, "argv", [crash.__file__, *ARGUMENTS])
    crash.main()
    found = capsys.readouterr().out
    for line in (
        "of them of the JVM: 1",
        "of them after the first acknowledgement: 2",
        "exit code of the last run: 0",
        "lost: 0",
        "batches missing: 0",
        "batches that differ when run again: 0",
        "wrong states and windows: 0",
    ):
        assert line in found
