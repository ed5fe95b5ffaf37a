"""The driver is killed (-9), then its JVM, and restarted: a short run of ``benchmarks/crash.py``."""

from __future__ import annotations

import pytest
from benchmarks.counted_outputs import FAULTS
from tests.faults.kills.counting import counts

pytestmark = [pytest.mark.spark, pytest.mark.programs]


# Several programs, one after the other; on a busy machine each takes its time.
@pytest.mark.timeout(620)
def test_killed_drivers_lose_no_record_and_corrupt_no_state() -> None:
    found = counts("crash", "--kills", "2", "--seed", "905")
    assert found["of them of the JVM"] == "1"
    assert found["of them after the first acknowledgement"] == "2"
    assert {name: found[name] for name in FAULTS} == dict.fromkeys(FAULTS, "0")


# Two cores are the least: one is the receiver's. Others have more slots than the state has partitions, and fewer.
@pytest.mark.timeout(620)
@pytest.mark.parametrize("rebuild", ["false", "true"], ids=["saved program", "rebuilt program"])
def test_program_recovers_on_other_numbers_of_cores(rebuild: str) -> None:
    conf = f"spark.penstock.checkpoint.rebuild={rebuild}"
    found = counts(
        "crash", "--kills", "2", "--seed", "905", "--interval", "3", "--cores", "2", "7", "3", "--conf", conf
    )
    assert found["of them after the first acknowledgement"] == "2"
    assert {name: found[name] for name in FAULTS} == dict.fromkeys(FAULTS, "0")
