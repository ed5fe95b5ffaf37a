"""The partition functions of operators."""

import operator
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from penstock.worker import functions
from penstock.worker.functions import PartitionFunction


def stop(*_args: Any) -> Any:
    raise StopIteration


def twice(value: Any) -> Iterator[Any]:
    yield value
    yield value


def run(function: PartitionFunction, records: Iterable[Any], index: int = 0) -> list[Any]:
    return list(function(index, records))


def test_map() -> None:
    assert run(functions.Map(str), [1, 2]) == ["1", "2"]


def test_flat_map() -> None:
    assert run(functions.FlatMap(str.split), ["a b", "", "c"]) == ["a", "b", "c"]


def test_filter() -> None:
    assert run(functions.Filter(lambda n: n % 2), [1, 2, 3]) == [1, 3]


def test_map_values() -> None:
    assert run(functions.MapValues(abs), [("a", -1), ("b", 2)]) == [("a", 1), ("b", 2)]


def test_flat_map_values() -> None:
    assert run(functions.FlatMapValues(range), [("a", 2), ("b", 0), ("c", 1)]) == [("a", 0), ("a", 1), ("c", 0)]


def test_map_partitions_gives_the_function_an_iterator() -> None:
    assert run(functions.MapPartitions(lambda records: [next(iter(records)), "rest", *records]), [1, 2, 3]) == [
        1,
        "rest",
        2,
        3,
    ]
    assert run(functions.MapPartitions(lambda records: [next(records)]), [1, 2]) == [1]  # type: ignore[call-overload]  # it is one


def test_map_partitions_with_index() -> None:
    assert run(functions.MapPartitionsWithIndex(lambda index, records: [(index, sum(records))]), [1, 2], 7) == [(7, 3)]


def test_glom() -> None:
    assert run(functions.Glom(), iter([1, 2])) == [[1, 2]]
    assert run(functions.Glom(), []) == [[]]


def test_count() -> None:
    assert run(functions.CountRecords(), iter(["a", "b"])) == [2]
    assert run(functions.CountRecords(), []) == [0]


def test_fused_chain_runs_in_order_and_lazily() -> None:
    seen: list[int] = []

    def note(value: int) -> int:
        seen.append(value)
        return value

    chain = functions.Fused((functions.Map(note), functions.FlatMap(twice), functions.Filter(lambda n: n > 1)))
    records = iter(chain(0, [1, 2, 3]))
    assert seen == []
    assert next(records) == 2
    assert seen == [1, 2]
    assert list(records) == [2, 3, 3]


def test_fused_chain_passes_the_partition_index() -> None:
    indexed = functions.MapPartitionsWithIndex(lambda index, records: [(index, record) for record in records])
    assert run(functions.Fused((functions.Map(str), indexed)), [1], 3) == [(3, "1")]


@pytest.mark.parametrize(
    "function",
    [
        functions.Map(stop),
        functions.FlatMap(stop),
        functions.Filter(stop),
        functions.MapValues(stop),
        functions.FlatMapValues(stop),
        functions.MapPartitions(stop),
        functions.MapPartitionsWithIndex(stop),
        functions.CombineValues(functions.Combiner(stop, operator.add, operator.add, 1e9)),
        functions.CombineValues(functions.Combiner(int, stop, operator.add, 1e9)),
        functions.CombineCombiners(functions.Combiner(int, operator.add, stop, 1e9)),
        functions.Fused((functions.Map(stop), functions.Glom())),
        functions.Fused((functions.Map(stop), functions.CountRecords())),
        functions.Fused((functions.Filter(stop), functions.MapPartitions(list))),
    ],
    ids=range(13),
)
def test_stop_iteration_of_a_function_is_an_error_and_not_the_end_of_the_partition(function: PartitionFunction) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        run(function, [(1, 1), (1, 1), (1, 1)])


@pytest.mark.parametrize(
    "make",
    [functions.Map, functions.FlatMap, functions.Filter, functions.MapPartitions],
    ids=lambda make: make.__name__,
)
def test_error_of_a_user_function_is_raised_unchanged(make: Callable[..., PartitionFunction]) -> None:
    def fail(_value: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(make(fail), [1])


@pytest.mark.parametrize(
    "function",
    [
        functions.Map(str),
        functions.FlatMap(str.split),
        functions.Glom(),
        functions.CountRecords(),
        functions.CombineValues(functions.Combiner(int, operator.add, operator.add, 512.0)),
        functions.Fused((functions.Map(str), functions.Glom())),
    ],
    ids=lambda function: type(function).__name__,
)
def test_partition_functions_are_picklable(function: PartitionFunction) -> None:
    assert pickle.loads(pickle.dumps(function)) == function
