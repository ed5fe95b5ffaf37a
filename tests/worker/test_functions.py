"""The partition function of operators on whole partitions."""

import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from penstock.worker.functions import PartitionFunction, map_partitions_with_index


def run(function: PartitionFunction, records: Iterable[Any], index: int = 0) -> list[Any]:
    return list(function(index, records))


def rest(index: int, records: Iterator[Any]) -> list[Any]:
    return [index, next(records), "rest", *records]


def test_the_function_gets_an_iterator() -> None:
    assert run(partial(map_partitions_with_index, rest), [1, 2, 3], 7) == [7, 1, "rest", 2, 3]


def test_error_of_a_user_function_is_raised_unchanged() -> None:
    def fail(_index: int, _records: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(partial(map_partitions_with_index, fail), [1])


def test_partition_functions_are_picklable() -> None:
    function, records = partial(map_partitions_with_index, rest), [("a", 1), ("a", 2)]
    assert run(pickle.loads(pickle.dumps(function)), records) == run(function, records)
