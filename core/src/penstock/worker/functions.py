"""Partition functions: what operators do inside a task, fused into one chain of generators.

The classes are sent to executors and run in the Python worker. Functions of the program are called inside generators
only: there a StopIteration that they raise is an error, and not a silent end of the partition.
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


@frozen
class Fused:
    """Several partition functions, one after the other."""

    functions: tuple[PartitionFunction, ...]

    def __call__(self, index: int, records: Iterable[Any]) -> Iterable[Any]:
        """Chain the functions; nothing runs until the records are read."""
        for function in self.functions:
            records = function(index, records)
        return records


@frozen
class Map:
    """``map``."""

    f: Callable[[Any], Any]

    def __call__(self, _index: int, records: Iterable[Any]) -> Iterator[Any]:
        """One record for each."""
        f = self.f
        return (f(record) for record in records)


@frozen
class FlatMap:
    """``flatMap``."""

    f: Callable[[Any], Iterable[Any]]

    def __call__(self, _index: int, records: Iterable[Any]) -> Iterator[Any]:
        """Any number of records for each."""
        f = self.f
        return (item for record in records for item in f(record))


@frozen
class Filter:
    """``filter``."""

    f: Callable[[Any], Any]

    def __call__(self, _index: int, records: Iterable[Any]) -> Iterator[Any]:
        """The records for which ``f`` is true."""
        f = self.f
        return (record for record in records if f(record))


@frozen
class MapValues:
    """``mapValues``."""

    f: Callable[[Any], Any]

    def __call__(self, _index: int, records: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """The same keys with new values."""
        f = self.f
        for pair in records:
            key, value = _key_and_value(pair)
            yield key, f(value)


@frozen
class FlatMapValues:
    """``flatMapValues``."""

    f: Callable[[Any], Iterable[Any]]

    def __call__(self, _index: int, records: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """One pair for each new value of a key."""
        f = self.f
        for pair in records:
            key, value = _key_and_value(pair)
            for item in f(value):
                yield key, item


@frozen
class MapPartitions:
    """``mapPartitions``."""

    f: Callable[[Iterable[Any]], Iterable[Any]]

    def __call__(self, _index: int, records: Iterable[Any]) -> Iterator[Any]:
        """The result of ``f`` for the records of the partition."""
        yield from self.f(iter(records))


@frozen
class MapPartitionsWithIndex:
    """``mapPartitionsWithIndex``."""

    f: Callable[[int, Iterable[Any]], Iterable[Any]]

    def __call__(self, index: int, records: Iterable[Any]) -> Iterator[Any]:
        """The result of ``f`` for the index and the records of the partition."""
        yield from self.f(index, iter(records))


@frozen
class Glom:
    """``glom``."""

    def __call__(self, _index: int, records: Iterable[Any]) -> Iterator[list[Any]]:
        """One list for the partition."""
        yield list(records)


@frozen
class CountRecords:
    """``count``, inside a partition."""

    def __call__(self, _index: int, records: Iterable[Any]) -> Iterator[int]:
        """One number for the partition."""
        yield sum(1 for _ in records)


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


@frozen
class CombineValues:
    """The map side of ``combineByKey``: one combiner for each key of a partition."""

    combiner: Combiner

    def __call__(self, _index: int, records: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """Combine in a dictionary; above the memory limit, in PySpark's merger, which spills to disk."""
        create, merge = self.combiner.createCombiner, self.combiner.mergeValue
        yield from _combine(self.combiner, records, create, merge, are_combiners=False)


@frozen
class CombineCombiners:
    """The reduce side of ``combineByKey``: one combiner for each key."""

    combiner: Combiner

    def __call__(self, _index: int, records: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """Like the map side, with combiners in place of values."""
        yield from _combine(self.combiner, records, _same, self.combiner.mergeCombiners, are_combiners=True)


def gathering(merge: Callable[[Any, Any], Any], memory_limit_mb: float) -> CombineCombiners:
    """A partition function that merges the values of each key, spilling past a memory limit."""
    return CombineCombiners(Combiner(_same, _first, merge, memory_limit_mb))


@frozen
class CheckPairs:
    """Before a shuffle by key: reject records that cannot be partitioned."""

    def __call__(self, _index: int, records: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """The same records.

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


def _same(value: Any) -> Any:
    return value


def _first(value: Any, _other: Any) -> Any:
    raise TypeError("there are only combiners to merge")


def _combine(
    combiner: Combiner,
    records: Iterable[tuple[Any, Any]],
    create: Callable[[Any], Any],
    merge: Callable[[Any, Any], Any],
    *,
    are_combiners: bool,
) -> Iterable[tuple[Any, Any]]:
    from pyspark.shuffle import get_used_memory

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
            return _spill(combiner, combined, source, are_combiners=are_combiners)
    return combined.items()


def _spill(
    combiner: Combiner, combined: dict[Any, Any], rest: Iterator[tuple[Any, Any]], *, are_combiners: bool
) -> Iterator[tuple[Any, Any]]:
    from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer
    from pyspark.shuffle import Aggregator, ExternalMerger

    aggregator = Aggregator(combiner.createCombiner, combiner.mergeValue, combiner.mergeCombiners)
    merger: Any = ExternalMerger(aggregator, combiner.memory_limit_mb * 0.9, AutoBatchedSerializer(CPickleSerializer()))
    merger.mergeCombiners(combined.items())
    combined.clear()
    (merger.mergeCombiners if are_combiners else merger.mergeValues)(rest)
    return iter(merger.items())
