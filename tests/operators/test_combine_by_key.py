"""``combineByKey``: PySpark's three functions."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_combiners_are_made_filled_and_merged(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        # The sum and the number of a key's values.
        return stream.combineByKey(
            lambda value: (value, 1),
            lambda mean, value: (mean[0] + value, mean[1] + 1),
            lambda one, other: (one[0] + other[0], one[1] + other[1]),
            2,
        )

    batches = harness.run(operation, [[("a", 1), ("a", 2), ("b", 7), ("a", 6)], [], [("b", 1)]])
    assert [sorted(batch) for batch in batches] == [[("a", (9, 3)), ("b", (7, 1))], [], [("b", (1, 1))]]
