"""Runs a program of ``benchmarks/`` that kills and counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def counts(module: str, *arguments: str, timeout_s: float = 600) -> dict[str, str]:
    """Run ``python -m benchmarks.MODULE``, which must succeed; return the counts that it prints, by name."""
    run = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    lines = (line.rpartition(": ") for line in run.stdout.splitlines())
    return {name: value for name, separator, value in lines if separator}
