"""``mapValues`` and ``flatMapValues``: keys stay."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_values_change_or_are_flattened(run_all: Any) -> None:
    operations = {"map": lambda s: s.mapValues(lambda n: n + 10), "flatMap": lambda s: s.flatMapValues(range)}
    assert run_all(operations, [[("a", 2), ("b", 0)], [], [("c", 1)]], sort=False) == {
        "map": [[("a", 12), ("b", 10)], [], [("c", 11)]],
        "flatMap": [[("a", 0), ("a", 1)], [], [("c", 0)]],
    }


def test_fields_after_the_value_are_dropped(run_all: Any) -> None:
    operations = {"map": lambda s: s.mapValues(lambda n: n + 1), "flatMap": lambda s: s.flatMapValues(range)}
    assert run_all(operations, [[("a", 1, "more")]]) == {"map": [[("a", 2)]], "flatMap": [[("a", 0)]]}
