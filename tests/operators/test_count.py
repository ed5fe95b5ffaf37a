"""``count``: how many records."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock.testing import StreamHarness

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_an_empty_batch_counts_0(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.count()

    batches = [list(range(n)) for n in range(5)]
    assert harness.run(operation, batches) == [[0], [1], [2], [3], [4]]


def test_an_rdd_without_partitions_counts_0(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.transform(lambda rdd: rdd.context.emptyRDD()).count()

    assert harness.run(operation, [[1]]) == [[0]]
