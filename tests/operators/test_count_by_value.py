"""``countByValue``: how often each record."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_each_value_is_counted(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.countByValue()

    batches = harness.run(operation, [[1, 1, 2, 1, 2], ["a", "b", "a"], []])
    assert [sorted(batch) for batch in batches] == [[(1, 3), (2, 2)], [("a", 2), ("b", 1)], []]
