"""``mapValues`` and ``flatMapValues``: keys stay."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_fields_after_the_value_are_dropped(run_all: Any) -> None:
    operations = {"map": lambda s: s.mapValues(lambda n: n + 1), "flatMap": lambda s: s.flatMapValues(range)}
    assert run_all(operations, [[("a", 1, "more")]]) == {"map": [[("a", 2)]], "flatMap": [[("a", 0)]]}
