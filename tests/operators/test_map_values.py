"""``flatMapValues``: keys stay."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_fields_after_the_value_are_dropped(run_all: Any) -> None:
    assert run_all({"flatMap": lambda s: s.flatMapValues(range)}, [[("a", 1, "more")]]) == {"flatMap": [[("a", 0)]]}
