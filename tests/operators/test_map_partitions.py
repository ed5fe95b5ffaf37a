"""``mapPartitions`` and ``mapPartitionsWithIndex``: whole partitions."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark


def test_a_function_is_given_each_partition(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.repartition(2).mapPartitions(lambda records: [len(list(records))])

    assert [sum(batch) for batch in harness.run(operation, [[1, 2, 3], [], [7]])] == [3, 0, 1]


def test_a_function_is_told_the_partition(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        keyed = stream.map(lambda n: (n, None)).partitionBy(3, lambda n: n)
        return keyed.mapPartitionsWithIndex(lambda index, pairs: [(index, sorted(key for key, _ in pairs))])

    assert harness.run(operation, [[0, 1, 2, 4], []]) == [
        [(0, [0]), (1, [1, 4]), (2, [2])],
        [(0, []), (1, []), (2, [])],
    ]
