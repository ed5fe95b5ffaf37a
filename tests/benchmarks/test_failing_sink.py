"""The program with a failing sink compares the order of attempts with the documented one."""

from __future__ import annotations

import pytest
from benchmarks.counting_program import OUTPUTS
from benchmarks.failing_sink import FAULTS, Attempt, check_order

Entry = tuple[int, int, int, bool]


def attempts(*batches: Entry) -> list[Attempt]:
    """The attempts of all outputs: run, batch time, time in s, whether all but one are written."""
    return [
        Attempt(pid, output, batch_ms, is_written or output == "updated", at_s)
        for pid, batch_ms, at_s, is_written in batches
        for output in OUTPUTS
    ]


FAILED = attempts((1, 1000, 1, True), (1, 2000, 2, False), (1, 3000, 3, True))
RETRY = [entry for entry in attempts((1, 2000, 4, True)) if entry.output != "updated"]


@pytest.mark.parametrize(
    ("policy", "entries", "found"),
    [
        ("retry", [*FAILED, *RETRY], {}),
        ("continue", [*FAILED, *RETRY], {"repeated although written": 5}),
        ("retry", [*FAILED, *attempts((1, 2000, 4, True))], {"repeated although written": 1}),
        ("continue", [*FAILED, *attempts((2, 2000, 30, True), (2, 4000, 31, True))], {}),
        ("continue", [*FAILED, *attempts((2, 4000, 30, True), (2, 2000, 31, True))], {"written out of order": 6}),
        ("continue", [*FAILED, *attempts((2, 2000, 30, False))], {"never written": 5}),
        # Completed just before the kill, and long before it.
        ("continue", [*FAILED, *attempts((2, 2000, 30, True), (2, 3000, 30, True))], {}),
        (
            "continue",
            [*FAILED, *attempts((1, 4000, 60, True), (2, 2000, 90, True), (2, 3000, 90, True))],
            {"repeated although completed": 1},
        ),
    ],
)
def test_what_is_counted(policy: str, entries: list[Attempt], found: dict[str, int]) -> None:
    counted = check_order(entries, policy, OUTPUTS)
    assert {name: counted[name] for name in FAULTS} == {**dict.fromkeys(FAULTS, 0), **found}
