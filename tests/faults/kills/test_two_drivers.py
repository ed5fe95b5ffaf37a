"""A driver is suspended while another one takes its checkpoint directory: a round of ``benchmarks/two_drivers.py``."""

from __future__ import annotations

import pytest
from benchmarks.counted_outputs import FAULTS
from tests.faults.kills.counting import counts

pytestmark = [pytest.mark.spark, pytest.mark.programs]


# Two programs at a time; on a busy machine each takes its time.
@pytest.mark.timeout(620)
def test_suspended_driver_that_continues_acknowledges_and_deletes_nothing() -> None:
    found = counts("two_drivers", "--rounds", "1")
    assert found["acknowledged without a claim"] == "0"
    assert {name: found[name] for name in FAULTS} == dict.fromkeys(FAULTS, "0")
