"""The partition functions of operators."""

import operator
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from penstock.worker.functions import (
    Combiner,
    PartitionFunction,
    combine_combiners,
    combine_values,
    count_records,
    filter_records,
    flat_map_records,
    flat_map_values,
    fused,
    glom,
    map_partitions,
    map_partitions_with_index,
    map_records,
    map_values,
)


def stop(*_args: Any) -> Any:
    raise StopIteration


def twice(value: Any) -> Iterator[Any]:
    yield value
    yield value


def run(function: PartitionFunction, records: Iterable[Any], index: int = 0) -> list[Any]:
    return list(function(index, records))


def test_map() -> None:
    assert run(partial(map_records, str), [1, 2]) == ["1", "2"]


def test_flat_map() -> None:
    assert run(partial(flat_map_records, str.split), ["a b", "", "c"]) == ["a", "b", "c"]


def test_filter() -> None:
    assert run(partial(filter_records, lambda n: n % 2), [1, 2, 3]) == [1, 3]


def test_map_values() -> None:
    assert run(partial(map_values, abs), [("a", -1), ("b", 2)]) == [("a", 1), ("b", 2)]


def test_flat_map_values() -> None:
    assert run(partial(flat_map_values, range), [("a", 2), ("b", 0), ("c", 1)]) == [
        ("a", 0),
        ("a", 1),
        ("c", 0),
    ]


def test_map_partitions_gives_the_function_an_iterator() -> None:
    assert run(partial(map_partitions, lambda records: [next(iter(records)), "rest", *records]), [1, 2, 3]) == [
        1,
        "rest",
        2,
        3,
    ]
    assert run(partial(map_partitions, lambda records: [next(records)]), [1, 2]) == [1]


def test_map_partitions_with_index() -> None:
    assert run(partial(map_partitions_with_index, lambda index, records: [(index, sum(records))]), [1, 2], 7) == [
        (7, 3)
    ]


def test_glom() -> None:
    assert run(glom, iter([1, 2])) == [[1, 2]]
    assert run(glom, []) == [[]]


def test_count() -> None:
    assert run(count_records, iter(["a", "b"])) == [2]
    assert run(count_records, []) == [0]


def test_fused_chain_runs_in_order_and_lazily() -> None:
    seen: list[int] = []

    def note(value: int) -> int:
        seen.append(value)
        return value

    chain = partial(
        fused,
        (
            partial(map_records, note),
            partial(flat_map_records, twice),
            partial(filter_records, lambda n: n > 1),
        ),
    )
    records = iter(chain(0, [1, 2, 3]))
    assert seen == []
    assert next(records) == 2
    assert seen == [1, 2]
    assert list(records) == [2, 3, 3]


def test_fused_chain_passes_the_partition_index() -> None:
    indexed = partial(map_partitions_with_index, lambda index, records: [(index, record) for record in records])
    assert run(partial(fused, (partial(map_records, str), indexed)), [1], 3) == [(3, "1")]


@pytest.mark.parametrize(
    "function",
    [
        partial(map_records, stop),
        partial(flat_map_records, stop),
        partial(filter_records, stop),
        partial(map_values, stop),
        partial(flat_map_values, stop),
        partial(map_partitions, stop),
        partial(map_partitions_with_index, stop),
        partial(combine_values, Combiner(stop, operator.add, operator.add, 1e9)),
        partial(combine_values, Combiner(int, stop, operator.add, 1e9)),
        partial(combine_combiners, Combiner(int, operator.add, stop, 1e9)),
        partial(fused, (partial(map_records, stop), glom)),
        partial(fused, (partial(map_records, stop), count_records)),
        partial(fused, (partial(filter_records, stop), partial(map_partitions, list))),
    ],
    ids=range(13),
)
def test_stop_iteration_of_a_function_is_an_error_and_not_the_end_of_the_partition(function: PartitionFunction) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        run(function, [(1, 1), (1, 1), (1, 1)])


@pytest.mark.parametrize(
    "make",
    [map_records, flat_map_records, filter_records, map_partitions],
    ids=lambda make: make.__name__,
)
def test_error_of_a_user_function_is_raised_unchanged(make: Callable[..., Iterable[Any]]) -> None:
    def fail(_value: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(partial(make, fail), [1])


@pytest.mark.parametrize(
    "function",
    [
        partial(map_records, str),
        partial(flat_map_records, twice),
        glom,
        count_records,
        partial(combine_values, Combiner(int, operator.add, operator.add, 512.0)),
        partial(fused, (partial(map_records, str), glom)),
    ],
    ids=["map", "flat_map", "glom", "count", "combine_values", "fused"],
)
def test_partition_functions_are_picklable(function: PartitionFunction) -> None:
    records = [("a", 1), ("a", 2)]
    assert run(pickle.loads(pickle.dumps(function)), records) == run(function, records)
