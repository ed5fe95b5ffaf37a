"""``countByWindow``: how many records in a window."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


def test_counts_over_three_batches(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.countByWindow(3, 1)

    batches = [list(range(n)) for n in range(1, 6)]
    assert harness.run(operation, batches, num_batches=7) == [[1], [3], [6], [9], [12], [9], [5]]


def test_counts_over_five_batches_come_from_the_window_before(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.countByWindow(5, 1)

    batches = [list(range(n)) for n in range(1, 7)]
    expected = [[1], [3], [6], [10], [15], [20], [18], [15], [11], [6], [0]]
    assert harness.run(operation, batches, num_batches=11) == expected


def test_a_short_window_without_records_has_no_count(harness: StreamHarness) -> None:
    batches = [[0], [0], [0, 1], [0], [], []]
    assert harness.run(lambda stream: stream.countByWindow(2, 1), batches) == [[1], [2], [3], [3], [1], []]
