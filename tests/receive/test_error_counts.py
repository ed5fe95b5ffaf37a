"""Rejected records: counted by reason, reported at most once a second."""

from __future__ import annotations

from penstock.spi import ErrorCounts


def test_report_has_new_and_total_counts() -> None:
    errors = ErrorCounts()
    errors.add("odd", 2)
    errors.add("long", 1)
    assert errors.report(0.0) == "odd: 2 (2 in total), long: 1 (1 in total)"
    errors.add("odd", 3)
    assert errors.report(1.0) == "odd: 3 (5 in total)"


def test_first_report_is_due_at_once_and_the_next_after_a_second() -> None:
    errors = ErrorCounts()
    assert errors.due_s(10.0) is None
    errors.add("odd", 1)
    assert errors.due_s(10.0) == 0
    errors.report(10.0)
    assert errors.due_s(10.5) is None
    errors.add("odd", 1)
    assert errors.due_s(10.25) == 0.75
    assert errors.due_s(11.0) == 0
    assert errors.due_s(99.0) == 0


def test_zero_records_make_no_report_due() -> None:
    errors = ErrorCounts()
    errors.add("odd", 0)
    assert errors.due_s(0.0) is None
    assert not errors.counts
