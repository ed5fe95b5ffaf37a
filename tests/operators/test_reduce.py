"""``reduce``: one record a batch."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from penstock import DStream
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_a_batch_becomes_one_record(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.reduce(operator.add)

    assert harness.run(operation, [[1, 2, 3, 4], [5], [], [0]]) == [[10], [5], [], [0]]
