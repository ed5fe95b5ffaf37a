"""``mapPartitions`` and ``mapPartitionsWithIndex``: whole partitions."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream

pytestmark = pytest.mark.spark


def test_function_gets_each_partition_and_its_index(run_all: Any) -> None:
    def indexed(stream: DStream[Any]) -> DStream[Any]:
        keyed = stream.map(lambda n: (n, None)).partitionBy(3, lambda n: n)
        return keyed.mapPartitionsWithIndex(lambda index, pairs: [(index, sorted(key for key, _ in pairs))])

    found = run_all(
        {
            "given": lambda stream: stream.repartition(2).mapPartitions(lambda records: [len(list(records))]),
            "indexed": indexed,
        },
        [[0, 1, 2, 4], []],
    )
    assert [(len(batch), sum(batch)) for batch in found["given"]] == [(2, 4), (2, 0)]
    assert found["indexed"] == [[(0, [0]), (1, [1, 4]), (2, [2])], [(0, []), (1, []), (2, [])]]
