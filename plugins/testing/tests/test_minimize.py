"""The fewest faults that break a guarantee, and their test."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, strategies as st

from penstock_testing import SimulatedFault
from penstock_testing.simulation.minimize import as_test, minimized


@given(st.integers(1, 20), st.sets(st.integers(0, 19)))
def test_only_needed_faults_are_left(number: int, needed: set[int]) -> None:
    faults = [SimulatedFault("kill", float(at)) for at in range(number)]
    wanted = {fault for fault in faults if fault.at_s in needed}
    tried: list[int] = []

    def breaks(some: Sequence[SimulatedFault]) -> bool:
        tried.append(len(some))
        return wanted <= set(some)

    assert set(minimized(faults, breaks)) == wanted
    assert len(tried) <= 2 * number * (number.bit_length() + 1)


def test_faults_that_need_each_other_are_left_out_together_or_not_at_all() -> None:
    faults = [SimulatedFault("wire", float(at), 1.0) for at in range(8)]

    def breaks(some: Sequence[SimulatedFault]) -> bool:
        times = [fault.at_s for fault in some]
        return (2.0 in times) == (3.0 in times) and 7.0 in times

    assert [fault.at_s for fault in minimized(faults, breaks)] == [7.0]


def test_test_of_a_seed_is_python_that_names_its_faults() -> None:
    faults = [SimulatedFault("kill", 1.25), SimulatedFault("wire", 3.0, 2.5, 17)]
    code = as_test(5, faults)
    compile(code, "test", "exec")
    names: dict[str, object] = {"SimulatedFault": SimulatedFault}
    lines = [line.strip().rstrip(",") for line in code.splitlines() if line.strip().startswith("SimulatedFault(")]
    assert [eval(line, names) for line in lines] == faults
    assert "def test_seed_5() -> None:" in code
