"""``glom``: a list for each partition."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_a_partition_becomes_a_list(harness: StreamHarness) -> None:
    def operation(stream: DStream[Any]) -> DStream[Any]:
        return stream.glom()

    assert harness.run(operation, [[1, 2, 3, 4], []]) == [[[1, 2], [3, 4]], [[], []]]
