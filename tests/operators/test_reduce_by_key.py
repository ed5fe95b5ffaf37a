"""``reduceByKey``: one value a key."""

from __future__ import annotations

import operator
from typing import Any

import pytest

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_values_of_a_key_are_reduced(run_all: Any) -> None:
    operations = {
        "default": lambda stream: stream.reduceByKey(operator.add),
        "one partition": lambda stream: stream.reduceByKey(operator.add, 1).glom(),
    }
    batches = [[("a", 1), ("a", 1), ("b", 1), ("b", 1)], [("", 1), ("", 1), ("", 1)], []]
    expected = [[("a", 2), ("b", 2)], [("", 3)], []]
    assert run_all(operations, batches) == {"default": expected, "one partition": [[batch] for batch in expected]}
