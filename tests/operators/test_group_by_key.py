"""``groupByKey``: the values of each key."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_values_are_gathered_in_their_order(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.groupByKey(2).mapValues(list)

    batches = harness.run(operation, [[("a", 1), ("a", 1), ("b", 1), ("a", 0)], [("", 2)], []])
    assert [sorted(batch) for batch in batches] == [[("a", [1, 1, 0]), ("b", [1])], [("", [2])], []]


def test_values_have_a_length_and_can_be_read_again(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.groupByKey(1).mapValues(lambda values: (len(values), sum(values), sum(values)))

    assert harness.run(operation, [[("a", 1), ("a", 2)]]) == [[("a", (2, 3, 3))]]
