"""The union of RDDs with the same partitioner; without Spark."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.helpers.fake_graph import FakeRDD

from penstock_state.co_partitioned import co_partitioned_union


def test_rdds_of_different_partitioners_are_not_united() -> None:
    sc: Any = MagicMock()
    sc._gateway.new_array.return_value = [None, None]
    sc._jsc.union.return_value.getNumPartitions.return_value = 4
    with pytest.raises(ValueError, match="the 2 RDDs do not have the same partitioner into 2 partitions"):
        co_partitioned_union(sc, [FakeRDD([[], []]), FakeRDD([[], []])], 2)
