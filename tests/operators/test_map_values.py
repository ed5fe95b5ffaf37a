"""``mapValues`` and ``flatMapValues``: keys stay."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


def test_values_change(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.mapValues(lambda n: n + 10)

    assert harness.run(operation, [[("a", 1), ("b", 2)], [], [("a", 3)]]) == [[("a", 11), ("b", 12)], [], [("a", 13)]]


def test_values_are_flattened(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.flatMapValues(range)

    assert harness.run(operation, [[("a", 2), ("b", 0)], [("c", 1)]]) == [[("a", 0), ("a", 1)], [("c", 0)]]


def test_what_a_record_has_behind_its_value_is_dropped(run_all: Any) -> None:
    operations = {"map": lambda s: s.mapValues(lambda n: n + 1), "flatMap": lambda s: s.flatMapValues(range)}
    assert run_all(operations, [[("a", 1, "more")]]) == {"map": [[("a", 2)]], "flatMap": [[("a", 0)]]}
