"""A sink fails while the driver is killed (-9): a short run of ``benchmarks/failing_sink.py``."""

from __future__ import annotations

import pytest
from benchmarks import counted_outputs, failing_sink
from tests.faults.kills.counting import counts

pytestmark = [pytest.mark.spark, pytest.mark.programs]

FAULTS = (*counted_outputs.FAULTS, *failing_sink.FAULTS)


# Several programs, one after the other; on a busy machine each takes its time.
@pytest.mark.timeout(620)
@pytest.mark.parametrize("policy", ["continue", "retry"])
def test_every_record_is_written_in_the_documented_order_after_the_outage(policy: str) -> None:
    found = counts("failing_sink", "--policy", policy, "--outage", "8", "--kills", "1")
    assert int(found["attempts that failed"]) > 0
    assert {name: found[name] for name in FAULTS} == dict.fromkeys(FAULTS, "0")
