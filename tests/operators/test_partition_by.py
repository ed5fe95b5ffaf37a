"""``partitionBy``: pairs where their keys belong."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import DStream
from penstock_testing import StreamHarness

pytestmark = pytest.mark.spark


def test_a_function_of_the_key_says_the_partition(harness: StreamHarness) -> None:
    def by_parity(stream: DStream[Any]) -> DStream[Any]:
        return stream.partitionBy(2, lambda key: key % 2).glom()

    assert harness.run(by_parity, [[(1, "a"), (2, "b"), (3, "c")]]) == [[[(2, "b")], [(1, "a"), (3, "c")]]]
