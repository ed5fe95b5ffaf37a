"""Partition functions: what operators do inside a task, fused into one chain of generators.

They run in the Python worker; ``functools.partial`` binds the program's function, which comes first. Functions of the
program are called inside generators only: there a StopIteration that they raise is an error, and not a silent end of
the partition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import frozen

#: From a partition's index and records to its new records.
PartitionFunction = Callable[[int, Iterable[Any]], Iterable[Any]]

# Records between two checks of the worker's memory.
_RECORDS_PER_CHECK = 10_000


def fused(functions: tuple[PartitionFunction, ...], index: int, records: Iterable[Any]) -> Iterable[Any]:
    """Chain several partition functions; nothing runs until the records are read."""
    for function in functions:
        records = function(index, records)
    return records


def map_records(f: Callable[[Any], Any], _index: int, records: Iterable[Any]) -> Iterator[Any]:
    """``map``: one record for each."""
    return (f(record) for record in records)


def flat_map_records(f: Callable[[Any], Iterable[Any]], _index: int, records: Iterable[Any]) -> Iterator[Any]:
    """``flatMap``: any number of records for each."""
    return (item for record in records for item in f(record))


def filter_records(f: Callable[[Any], object], _index: int, records: Iterable[Any]) -> Iterator[Any]:
    """``filter``: the records for which ``f`` is true."""
    return (record for record in records if f(record))


def map_values(f: Callable[[Any], Any], _index: int, records: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """``mapValues``: the same keys with new values."""
    return ((key, f(value)) for key, value in map(_key_and_value, records))


def flat_map_values(
    f: Callable[[Any], Iterable[Any]], _index: int, records: Iterable[Any]
) -> Iterator[tuple[Any, Any]]:
    """``flatMapValues``: one pair for each new value of a key."""
    return ((key, item) for key, value in map(_key_and_value, records) for item in f(value))


def map_partitions(f: Callable[[Any], Iterable[Any]], _index: int, records: Iterable[Any]) -> Iterator[Any]:
    """``mapPartitions``: the result of ``f`` for the records of the partition."""
    yield from f(iter(records))


def map_partitions_with_index(
    f: Callable[[int, Any], Iterable[Any]], index: int, records: Iterable[Any]
) -> Iterator[Any]:
    """``mapPartitionsWithIndex``: the result of ``f`` for the index and the records of the partition."""
    yield from f(index, iter(records))


def glom(_index: int, records: Iterable[Any]) -> Iterator[list[Any]]:
    """``glom``: one list for the partition."""
    yield list(records)


def count_records(_index: int, records: Iterable[Any]) -> Iterator[int]:
    """``count``: one number for the partition."""
    yield sum(1 for _ in records)


def same(value: Any) -> Any:
    """The value itself."""
    return value


def one(_record: Any) -> int:
    """The count of one record."""
    return 1


def counted(record: Any) -> tuple[Any, int]:
    """The record with its count."""
    return record, 1


def appended(values: list[Any], value: Any) -> list[Any]:
    """Append a value in place."""
    values.append(value)
    return values


@frozen
class Combiner:
    """How the values of a key are combined: PySpark's three functions, under its names.

    Attributes:
        createCombiner: turns the first value of a key into a combiner.
        mergeValue: merges another value into a combiner.
        mergeCombiners: merges two combiners.
        memory_limit_mb: the worker spills when it uses more (``spark.python.worker.memory``).
    """

    createCombiner: Callable[[Any], Any]
    mergeValue: Callable[[Any, Any], Any]
    mergeCombiners: Callable[[Any, Any], Any]
    memory_limit_mb: float


def combine_values(combiner: Combiner, _index: int, records: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """The map side of ``combineByKey``: one combiner for each key of a partition.

    Combines in a dictionary; above the memory limit, in PySpark's merger, which spills to disk.
    """
    yield from _combine(combiner, records)


def combine_combiners(combiner: Combiner, _index: int, records: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """The reduce side of ``combineByKey``: one combiner for each key."""
    return merge_by_key(combiner.mergeCombiners, combiner.memory_limit_mb, records)


def merge_by_key(
    merge: Callable[[Any, Any], Any], memory_limit_mb: float, records: Iterable[Any]
) -> Iterator[tuple[Any, Any]]:
    """Merge the values of each key; spill past a memory limit."""
    yield from _combine(Combiner(same, merge, merge, memory_limit_mb), records)


def check_pairs(_index: int, records: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """The same records: before a shuffle by key, reject those that cannot be partitioned.

    Raises:
        TypeError: a record is not a pair, or its key cannot be hashed.
    """
    for pair in records:
        try:
            key, _value = pair
            hash(key)
        except (TypeError, ValueError):
            check_pair(pair)
            raise
        yield pair


def _key_and_value(pair: Any) -> tuple[Any, Any]:
    # By position, as in PySpark: further elements of a record are dropped.
    try:
        return pair[0], pair[1]
    except (TypeError, LookupError):
        check_pair(pair)
        raise


def check_pair(record: Any) -> None:
    """Reject a record that an operator by key cannot use.

    Raises:
        TypeError: the record is not a pair, or its key cannot be hashed.
    """
    try:
        key, _value = record
    except (TypeError, ValueError):
        raise TypeError(
            f"operators by key take (key, value) pairs, and a record is {_short(record)}; make pairs first, with map"
        ) from None
    try:
        hash(key)
    except TypeError:
        raise TypeError(
            f"the key {_short(key)} cannot be hashed; make it a tuple, a string or another immutable value first"
        ) from None


def _short(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def _combine(combiner: Combiner, records: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
    from pyspark.shuffle import get_used_memory

    create, merge = combiner.createCombiner, combiner.mergeValue
    combined: dict[Any, Any] = {}
    source = iter(records)
    pair: Any = None
    for first in source:
        try:
            for pair in itertools.chain((first,), itertools.islice(source, _RECORDS_PER_CHECK)):
                key, value = pair
                combined[key] = merge(combined[key], value) if key in combined else create(value)
        except (TypeError, ValueError):
            check_pair(pair)  # raises if the pair is to blame; else the program's function raised the error
            raise
        if get_used_memory() > combiner.memory_limit_mb:
            return _spill(combiner, combined, source)
    return combined.items()


def _spill(combiner: Combiner, combined: dict[Any, Any], rest: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer
    from pyspark.shuffle import Aggregator, ExternalMerger

    aggregator = Aggregator(combiner.createCombiner, combiner.mergeValue, combiner.mergeCombiners)
    merger: Any = ExternalMerger(aggregator, combiner.memory_limit_mb * 0.9, AutoBatchedSerializer(CPickleSerializer()))
    merger.mergeCombiners(combined.items())
    combined.clear()
    merger.mergeValues(rest)
    return iter(merger.items())
