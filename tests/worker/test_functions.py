"""The partition functions of operators on whole partitions."""

import pickle
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

from penstock.worker.functions import PartitionFunction, glom, map_partitions


def run(function: PartitionFunction, records: Iterable[Any], index: int = 0) -> list[Any]:
    return list(function(index, records))


def test_map_partitions_gives_the_function_an_iterator() -> None:
    assert run(partial(map_partitions, lambda records: [next(iter(records)), "rest", *records]), [1, 2, 3]) == [
        1,
        "rest",
        2,
        3,
    ]
    assert run(partial(map_partitions, lambda records: [next(records)]), [1, 2]) == [1]


def test_error_of_a_user_function_is_raised_unchanged() -> None:
    def fail(_value: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(partial(map_partitions, fail), [1])


@pytest.mark.parametrize("function", [partial(map_partitions, list), glom], ids=["mapPartitions", "glom"])
def test_partition_functions_are_picklable(function: PartitionFunction) -> None:
    records = [("a", 1), ("a", 2)]
    assert run(pickle.loads(pickle.dumps(function)), records) == run(function, records)
