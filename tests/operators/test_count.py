"""``count``: how many records."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_batches_and_rdds_without_records_count_0(run_all: Any) -> None:
    def without_partitions(stream: DStream[Any]) -> DStream[Any]:
        return stream.transform(lambda rdd: rdd.context.emptyRDD())

    operations = {
        "batches": lambda stream: stream.count(),
        "no partitions": lambda stream: without_partitions(stream).count(),
    }
    found = run_all(operations, [[], [0], [0, 1, 2, 3]])
    assert found == {"batches": [[0], [1], [4]], "no partitions": [[0], [0], [0]]}
