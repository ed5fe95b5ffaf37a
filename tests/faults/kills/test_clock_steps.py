"""The wall clock of a running program is set forward and back: a short run of ``benchmarks/shifted_clock.py``."""

from __future__ import annotations

import pytest
from benchmarks import counted_outputs, shifted_clock
from benchmarks.stepped_clock import compiler
from tests.faults.kills.counting import counts

pytestmark = [pytest.mark.spark, pytest.mark.programs]

FAULTS = (*counted_outputs.FAULTS, *shifted_clock.FAULTS)


@pytest.mark.skipif(compiler() is None, reason="no C compiler: the wall clock of a process cannot be shifted")
# Several programs, one after the other; on a busy machine each takes its time.
@pytest.mark.timeout(620)
def test_batch_times_and_results_are_right_whenever_the_clock_is_set() -> None:
    found = counts("shifted_clock", "--minute", "1", "--small", "2")
    # The step back to the right time skips what a restart in between took, if that is more than an interval.
    assert int(found["times skipped by steps forward"]) in (2, 3)
    assert {name: found[name] for name in FAULTS} == dict.fromkeys(FAULTS, "0")
