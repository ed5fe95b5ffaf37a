"""Finds the fewest faults with which a seed still breaks a guarantee, and writes them as a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock_testing.simulation.faults import SimulatedFault

_TEST = """\
from penstock_testing import SimulatedFault, Simulation


def test_seed_{seed}() -> None:
    faults = [
{faults}
    ]
    outcome = Simulation({seed}, faults).run()
    assert not outcome.violations, "\\n".join(outcome.trace)
"""


def minimized(
    faults: Sequence[SimulatedFault], breaks: Callable[[Sequence[SimulatedFault]], bool]
) -> tuple[SimulatedFault, ...]:
    """Leave faults out, first half of them at once, then fewer, until none can be left out.

    Args:
        faults: faults that break a guarantee.
        breaks: runs a simulation with some faults; whether it breaks a guarantee. It is called some 2 n log n times at
            most for n faults.

    Returns:
        The faults that are left. Without any one of them no guarantee is broken.
    """
    left, size = tuple(faults), max(len(faults) // 2, 1)
    while left:
        at, before = 0, len(left)
        while at < len(left):
            fewer = left[:at] + left[at + size :]
            if breaks(fewer):
                left = fewer
            else:
                at += size
        if size == 1 and len(left) == before:
            break
        size = max(size // 2, 1)
    return left


def as_test(seed: int, faults: Sequence[SimulatedFault]) -> str:
    """A test, as Python code, that repeats a simulation."""
    return _TEST.format(seed=seed, faults="\n".join(f"        {_code(fault)}," for fault in faults))


def _code(fault: SimulatedFault) -> str:
    return f'SimulatedFault("{fault.kind}", {fault.at_s}, {fault.lasts_s}, {fault.details})'
