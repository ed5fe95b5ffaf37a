"""``groupByKeyAndWindow``: the values of each key in a window."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


def test_pysparks_numbers(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.groupByKeyAndWindow(3, 1).mapValues(list)

    batches = harness.run(operation, [[("a", n)] for n in range(5)], num_batches=7)
    expected = [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4], [4]]
    assert batches == [[("a", values)] for values in expected]


def test_long_windows_drop_what_left_and_keys_without_values(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.groupByKeyAndWindow(6, 1, 1).mapValues(list)

    batches = harness.run(operation, [[("a", 1), ("b", 2)], [("b", 3)], [], []], num_batches=8)
    both, late = [("a", [1]), ("b", [2, 3])], [("b", [3])]
    assert batches == [[("a", [1]), ("b", [2])], both, both, both, both, both, late, []]
