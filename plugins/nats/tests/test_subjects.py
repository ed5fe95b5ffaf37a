"""Subjects and patterns of NATS."""

from __future__ import annotations

import pytest

from penstock_nats.subjects import is_subject, is_subject_filter, matches


@pytest.mark.parametrize(
    ("subject", "is_filter", "is_plain"),
    [
        ("orders", True, True),
        ("orders.new.eu", True, True),
        ("orders.*", True, False),
        ("orders.>", True, False),
        (">", True, False),
        ("orders.>.eu", False, False),
        ("", False, False),
        ("orders..eu", False, False),
        ("orders. eu", False, False),
        ("orders.\n", False, False),
        ("orders.a*", True, True),
    ],
)
def test_legal_subjects(subject: str, is_filter: bool, is_plain: bool) -> None:
    assert (is_subject_filter(subject), is_subject(subject)) == (is_filter, is_plain)


@pytest.mark.parametrize(
    ("pattern", "subject", "matched"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.b.c", "a.b", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("*.b", "a.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
    ],
)
def test_pattern_stands_for_subjects(pattern: str, subject: str, matched: bool) -> None:
    assert matches(pattern, subject) is matched
