"""A short run of the fault lab: broker, receiver and connection fail, and nothing that was acknowledged is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.forked import run_module

pytestmark = [pytest.mark.spark, pytest.mark.programs]

ROOT = Path(__file__).parents[3]
KINDS = ("worker killed", "connection cut", "broker killed")


@pytest.mark.timeout(420)
@pytest.mark.parametrize("broker", ["redis", "nats", "http"])
def test_nothing_that_a_broker_was_told_is_stored_is_lost(broker: str) -> None:
    only = [argument for kind in KINDS for argument in ("--only", kind)]
    arguments = (broker, "--minutes", "0.33", "--master", "local[3]", *only)
    ran = run_module("benchmarks.faults", *arguments, cwd=ROOT, timeout_s=400)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout
    row = [line for line in ran.stdout.splitlines() if line.startswith(f"| {broker} |")]
    assert len(row) == 1
    cells = [cell.strip() for cell in row[0].split("|")[1:-1]]
    assert (cells[8], cells[9]) == ("0", "0")  # gone with the broker's data, lost
    assert int(cells[4].replace(",", "")) > 1000
    assert "killed" in cells[3]
