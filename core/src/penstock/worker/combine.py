"""``combineByKey`` within a partition: in a dictionary, and past the worker's memory limit in PySpark's merger."""

from __future__ import annotations

import itertools
import operator
import pickle
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import Any, Protocol, runtime_checkable

from attrs import frozen
from pyspark.core.rdd import portable_hash
from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer

from penstock.worker.functions import check_pair, same
from penstock.worker.fused import EXPANDING, Step, TerminalStep, compiled, functions_of, generated, kinds

# Records between two checks of the worker's memory; fewer if an operator expands records.
_RECORDS_PER_CHECK, _EXPANDING_PER_CHECK = 10_000, 1_000

# Pairs per pickle of a shuffle: the initial number, and the size of a pickle at which the number is reduced.
_FIRST_PAIRS_PER_CHUNK, _CHUNK_BYTES = 16, 1 << 20

# Growth of the memory limit after a spill.
_GROWTH = 1.05

# PySpark's form of a number.
_PACK = struct.Struct("!q").pack

# PySpark's portable hash of these types is Python's own.
_HASHED_BY_PYTHON = frozenset({str, int, bytes, float, bool})


class _Missing(Enum):
    MISSING = auto()


#: Stands for a value that does not exist: ``None`` may be one. An enum member stays the same object when pickled.
MISSING = _Missing.MISSING


@frozen
class Combiner:
    """The functions that combine the values of a key, as PySpark names them. Above the limit the worker spills."""

    createCombiner: Callable[[Any], Any]
    mergeValue: Callable[[Any, Any], Any]
    mergeCombiners: Callable[[Any, Any], Any]
    memory_limit_mb: float


class _Combined:
    def __init__(self, combiner: Combiner, pairs: dict[Any, Any] | None = None) -> None:
        from pyspark.shuffle import get_used_memory

        self.pairs: dict[Any, Any] = {} if pairs is None else pairs
        self._combiner = combiner
        self._used_memory_mb = get_used_memory
        self._limit_mb = combiner.memory_limit_mb
        self._merger: Any = None

    def relieve(self) -> None:
        """Check the worker's memory; above the limit, move all combiners to the merger, which spills to disk."""
        if self._used_memory_mb() > self._limit_mb:
            self._spill()
            # Python may not return the memory. Like PySpark's merger, allow some more before the next spill.
            self._limit_mb = max(self._limit_mb, self._used_memory_mb() * _GROWTH)

    def groups(self, records: Iterable[Any], size: int) -> Iterator[Iterator[Any]]:
        source = iter(records)
        for first in source:
            yield itertools.chain((first,), itertools.islice(source, size - 1))
            self.relieve()

    def with_memory_checks(self, items: Iterable[Any]) -> Iterable[Any]:
        """The items that a function returned for one record; memory is checked while a long iterable is read."""
        try:
            is_short = len(items) <= _RECORDS_PER_CHECK  # type: ignore[arg-type]
        except TypeError:
            is_short = False
        return items if is_short else itertools.chain.from_iterable(self.groups(items, _RECORDS_PER_CHECK))

    def items(self) -> Iterable[tuple[Any, Any]]:
        if self._merger is None:
            return self.pairs.items()
        self._spill()
        pairs: Iterator[tuple[Any, Any]] = iter(self._merger.items())
        return pairs

    def _spill(self) -> None:
        from pyspark.shuffle import Aggregator, ExternalMerger

        combiner = self._combiner
        if self._merger is None:
            aggregator = Aggregator(combiner.createCombiner, combiner.mergeValue, combiner.mergeCombiners)
            serializer = AutoBatchedSerializer(CPickleSerializer())
            self._merger = ExternalMerger(aggregator, combiner.memory_limit_mb * 0.9, serializer)
        self._merger.mergeCombiners(self.pairs.items())
        self.pairs.clear()


@frozen
class CombineValues(TerminalStep):
    """The map side of ``combineByKey``: keys and combiners of a partition."""

    combiner: Combiner

    def results(self, run: tuple[Step, ...], records: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        combiner, combined = self.combiner, _Combined(self.combiner)
        if combiner.createCombiner is not same:
            ending = "combineByKey"
        else:
            ending = "sumByKey" if combiner.mergeValue is operator.add else "reduceByKey"
        size = _EXPANDING_PER_CHECK if EXPANDING.intersection(kinds(run)) else _RECORDS_PER_CHECK
        compiled(kinds(run), ending)(
            combined.groups(records, size),
            *functions_of(run),
            combined.pairs,
            combiner.createCombiner,
            combiner.mergeValue,
            combined.with_memory_checks,
            MISSING,
        )
        yield from combined.items()


@frozen
class CountValues(TerminalStep):
    """The map side of ``countByValue``: the records of a partition and their counts."""

    memory_limit_mb: float

    def results(self, run: tuple[Step, ...], records: Iterable[Any]) -> Iterator[tuple[Any, int]]:
        counts: Counter[Any] = Counter()
        combined = _Combined(Combiner(same, operator.add, operator.add, self.memory_limit_mb), counts)
        values = _flattened(run, records)
        while group := list(itertools.islice(values, _RECORDS_PER_CHECK)):
            try:
                counts.update(group)
            except TypeError:
                for record in group:
                    check_pair((record, 1))
                raise
            combined.relieve()
        yield from combined.items()


@runtime_checkable
class Countable(Protocol):
    """Records that know their number."""

    def count_records(self) -> int:
        """The number of records."""


@frozen
class CountRecords(TerminalStep):
    """``count``: one number for the partition."""

    def results(self, run: tuple[Step, ...], records: Iterable[Any]) -> Iterator[int]:
        if not run and isinstance(records, Countable):
            yield records.count_records()
            return
        # Counts in C: a deque of length 0 consumes all records.
        counter = itertools.count()
        deque(zip(_flattened(run, records), counter), maxlen=0)  # noqa: B905 - the counter has no end
        yield next(counter)


@frozen
class MergeChunks(TerminalStep):
    """The reduce side of ``combineByKey``: from the chunks of a shuffle to keys and combiners."""

    combiner: Combiner

    def results(self, _run: tuple[Step, ...], chunks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        combined = _Combined(self.combiner)
        pairs, merge, number = combined.pairs, self.combiner.mergeCombiners, 0
        find, missing = pairs.get, MISSING
        for keys, combiners in chunks:
            if not pairs:
                pairs.update(zip(keys, combiners, strict=True))  # the keys of a chunk are distinct
            else:
                for key, other in zip(keys, combiners, strict=True):
                    combiner = find(key, missing)
                    pairs[key] = other if combiner is missing else merge(combiner, other)
            number += len(keys)
            if number >= _RECORDS_PER_CHECK:
                number = 0
                combined.relieve()
        yield from combined.items()


@frozen
class Buckets:
    """Partition function at the end of the map side, from keys and combiners to pickled chunks for the shuffle."""

    num_partitions: int

    def __call__(self, _index: int, pairs: Iterable[tuple[Any, Any]]) -> Iterator[bytes]:
        """The number of a partition and a chunk for it, alternately: the input of Spark's ``PairwiseRDD``."""
        number = self.num_partitions
        buckets: list[tuple[list[Any], list[Any]]] = [([], []) for _ in range(number)]
        limit = _FIRST_PAIRS_PER_CHUNK
        for key, combiner in pairs:
            hashed = hash(key) if type(key) in _HASHED_BY_PYTHON else portable_hash(key)
            keys, combiners = buckets[hashed % number]
            keys.append(key)
            combiners.append(combiner)
            if len(keys) >= limit:
                chunk = pickle.dumps((keys, combiners), pickle.HIGHEST_PROTOCOL)
                yield _PACK(hashed % number)
                yield chunk
                keys.clear()
                combiners.clear()
                limit = max(limit // 2, 1) if len(chunk) > _CHUNK_BYTES else limit * 2
        for partition, bucket in enumerate(buckets):
            if bucket[0]:
                yield _PACK(partition)
                yield pickle.dumps(bucket, pickle.HIGHEST_PROTOCOL)


def merge_by_key(
    merge: Callable[[Any, Any], Any], memory_limit_mb: float, records: Iterable[Any]
) -> Iterator[tuple[Any, Any]]:
    """Merge the values of each key; spill past a memory limit."""
    return CombineValues(Combiner(same, merge, merge, memory_limit_mb)).results((), records)


def _flattened(run: tuple[Step, ...], records: Iterable[Any]) -> Iterator[Any]:
    """The records of a run of operators; the results of a final ``flatMap`` are flattened in C."""
    if run and run[-1].kind == "flatMap":
        return itertools.chain.from_iterable(generated((*run[:-1], Step("map", run[-1].function)), records))
    return iter(generated(run, records))
