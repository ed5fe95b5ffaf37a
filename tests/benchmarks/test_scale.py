"""The scale benchmark gives a row of its table for each load."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.measurement import ROOT


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.scale", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_a_load_has_a_row() -> None:
    ran = run("6x5x2", "--seconds", "1", "--hosts", "2")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    head, _rule, row = (line.strip("| ").split(" | ") for line in ran.stdout.splitlines() if line.startswith("|"))
    found = dict(zip(head, row, strict=True))
    assert [found[name] for name in ("receivers", "streams", "blocks/s offered")] == ["6", "2", "30"]
    assert 0 < float(found["blocks/s accepted"]) <= 30


def test_wrong_load_is_refused() -> None:
    ran = run("1000")
    assert ran.returncode == 2
    assert "invalid load value: '1000'" in ran.stderr
