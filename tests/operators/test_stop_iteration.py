"""A StopIteration that a function raises is an error, not the end of a partition. All operators: in tests/graph."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import BatchFailedError

pytestmark = pytest.mark.spark


def stop(*_arguments: Any) -> Any:
    raise StopIteration


def test_stop_iteration_of_a_partition_function_fails_the_batch(run_outputs: Any) -> None:
    with pytest.raises(BatchFailedError, match="StopIteration"):
        run_outputs(lambda stream: stream.partitionBy(2, stop).foreachRDD(lambda rdd: rdd.collect()), [[("a", 1)]])
