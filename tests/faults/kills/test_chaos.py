"""The chaos of ``benchmarks/chaos.py``, for a short while: what was acknowledged is in exactly one batch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.helpers.forked import run_module
from tests.helpers.shared_jvm import SharedJvm

pytestmark = [pytest.mark.spark, pytest.mark.programs]

ROOT = Path(__file__).parents[3]


FAULTS = (
    "killed Python workers of receivers",
    "killed executors",
    "executors ended in order",
    "cut connections to the driver",
    "slow batches",
    "full disks",
)


# Several programs, one after the other; on a busy machine each takes its time.
@pytest.mark.timeout(920)
def test_no_acknowledged_record_is_lost_or_duplicated_under_faults(shared_jvm: SharedJvm) -> None:
    shared_jvm.prepare({})
    ran = run_module("benchmarks.chaos", "8", "722", cwd=ROOT, env=shared_jvm.environment, timeout_s=900)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout
    figures = {name: int(count.replace(",", "")) for count, name in re.findall(r"^ *([\d,]+) (.*)$", ran.stdout, re.M)}
    assert (figures["records lost"], figures["records twice"]) == (0, 0)
    assert figures["records acknowledged"] > 10_000
    had = {fault for fault in FAULTS if figures.get(fault)}
    missing = {"full disks"} if "a tmpfs cannot be mounted" in ran.stdout else set()
    assert had == set(FAULTS) - missing
