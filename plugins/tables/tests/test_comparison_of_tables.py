"""The comparison by which ``killed_programs`` judges a table: it notices every kind of difference."""

from __future__ import annotations

import pytest
from plugins.tables.tests.killed_programs import FAULTS, compare, has_failed

# Number and store of each row; 2 was sent again, because its acknowledgement was lost.
ROWS = [(1, 11), (2, 11), (2, 12), (3, 12)]
ACKNOWLEDGED, SENT = {1, 2, 3}, {1, 2, 3, 4, 5}


def result(rows: list[tuple[int, int]], left: int = 0, code: int = 0) -> dict[str, object]:
    return {"exit code": code, "tables": {"sql": compare(rows, ACKNOWLEDGED, SENT, left=left)}}


def test_a_number_that_its_source_sent_again_is_no_fault() -> None:
    compared = compare(ROWS, ACKNOWLEDGED, SENT, left=0)
    assert [compared[fault] for fault in FAULTS] == [0, 0, 0, 0]
    assert (compared["written"], compared["sent again and stored again"]) == (4, 1)
    assert not has_failed(result(ROWS))


def test_a_number_that_is_stored_and_not_acknowledged_may_be_written() -> None:
    assert not has_failed(result([*ROWS, (4, 13)]))


@pytest.mark.parametrize(
    ("rows", "left", "fault"),
    [
        (ROWS[:3], 0, "lost"),
        (ROWS[:3], 2, "pending"),
        ([], 0, "lost"),
        ([*ROWS, (3, 12)], 0, "twice"),
        ([*ROWS, (6, 13)], 0, "unknown"),
    ],
)
def test_each_difference_fails_the_run_under_its_name(rows: list[tuple[int, int]], left: int, fault: str) -> None:
    compared = compare(rows, ACKNOWLEDGED, SENT, left=left)
    assert [name for name in FAULTS if compared[name]] == [fault]
    assert has_failed(result(rows, left))


def test_a_program_that_ends_with_an_error_fails_the_run() -> None:
    assert has_failed(result(ROWS, code=1))
