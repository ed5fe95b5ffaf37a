"""A StopIteration that a function raises is an error, not the end of a partition. All operators: in tests/graph."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark
PARTITIONS = 2


def stop(*_arguments: Any) -> Any:
    raise StopIteration


def test_stop_iteration_is_an_error_in_every_operator(reasons: Any) -> None:
    operations = {
        "map": lambda stream: stream.map(stop),
        "reduceByKey": lambda stream: stream.reduceByKey(stop, 1),
        "partitionBy": lambda stream: stream.partitionBy(2, stop),
    }
    found = reasons(operations, [[("a", 1), ("a", 2)]])
    assert found.keys() == operations.keys()
    assert [name for name, reason in found.items() if "StopIteration" not in reason] == []
