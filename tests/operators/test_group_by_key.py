"""``groupByKey``: the values of each key."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark
PARTITIONS = 2


def test_values_are_gathered_in_their_order_have_a_length_and_can_be_read_again(run_all: Any) -> None:
    operations = {
        "lists": lambda stream: stream.groupByKey(2).mapValues(list),
        "sums": lambda stream: stream.groupByKey(1).mapValues(lambda values: (len(values), sum(values), sum(values))),
    }
    assert run_all(operations, [[("a", 1), ("a", 1), ("b", 1), ("a", 0)], [("", 2)], []]) == {
        "lists": [[("a", [1, 1, 0]), ("b", [1])], [("", [2])], []],
        "sums": [[("a", (3, 2, 2)), ("b", (1, 1, 1))], [("", (1, 2, 2))], []],
    }
