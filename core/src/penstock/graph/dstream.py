"""``DStream``: a stream as a sequence of RDDs, one a batch, with PySpark's operators.

Owns the operators' names, argument order and defaults. What a stream remembers, and when, is ``Stream``'s; what an
operator does in a task is in ``functions``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import RDD, StorageLevel
from pyspark.core.rdd import portable_hash
from pyspark.util import _parse_memory

from penstock.graph import functions
from penstock.graph.arity import takes_time
from penstock.graph.call_site import call_site
from penstock.graph.functions import PartitionFunction
from penstock.graph.stream import Stream

if TYPE_CHECKING:
    pass

T = TypeVar("T", covariant=True)


class DStream(Stream[T]):
    """A stream of one context.

    Args:
        context: of the program.
        parents: the streams it is computed from.
    """

    def map(self, f: Callable[[T], Any], preservesPartitioning: bool = False) -> DStream[Any]:
        """Apply ``f`` to each record."""
        return self._narrow(functions.Map(f), preservesPartitioning)

    def flatMap(self, f: Callable[[T], Iterable[Any]], preservesPartitioning: bool = False) -> DStream[Any]:
        """Apply ``f`` to each record and flatten the results."""
        return self._narrow(functions.FlatMap(f), preservesPartitioning)

    def filter(self, f: Callable[[T], Any]) -> DStream[T]:
        """Keep the records for which ``f`` is true."""
        return self._narrow(functions.Filter(f), True)

    def mapPartitions(
        self, f: Callable[[Iterable[T]], Iterable[Any]], preservesPartitioning: bool = False
    ) -> DStream[Any]:
        """Apply ``f`` to the records of each partition."""
        return self._narrow(functions.MapPartitions(f), preservesPartitioning)

    def mapPartitionsWithIndex(
        self, f: Callable[[int, Iterable[T]], Iterable[Any]], preservesPartitioning: bool = False
    ) -> DStream[Any]:
        """Apply ``f`` to the index and the records of each partition."""
        return self._narrow(functions.MapPartitionsWithIndex(f), preservesPartitioning)

    def mapValues(self, f: Callable[[Any], Any]) -> DStream[tuple[Any, Any]]:
        """Apply ``f`` to the value of each pair."""
        return self._narrow(functions.MapValues(f), True)

    def flatMapValues(self, f: Callable[[Any], Iterable[Any]]) -> DStream[tuple[Any, Any]]:
        """Apply ``f`` to the value of each pair and flatten; the key stays with each result."""
        return self._narrow(functions.FlatMapValues(f), True)

    def glom(self) -> DStream[list[T]]:
        """Make one list of each partition."""
        return self._narrow(functions.Glom(), False)

    def reduceByKey(
        self, func: Callable[[Any, Any], Any], numPartitions: int | None = None
    ) -> DStream[tuple[Any, Any]]:
        """Reduce the values of each key, batch by batch."""
        return self.combineByKey(_same, func, func, numPartitions)

    def combineByKey(
        self,
        createCombiner: Callable[[Any], Any],
        mergeValue: Callable[[Any, Any], Any],
        mergeCombiners: Callable[[Any, Any], Any],
        numPartitions: int | None = None,
    ) -> DStream[tuple[Any, Any]]:
        """Combine the values of each key, batch by batch."""
        return CombinedDStream(self, self._combiner(createCombiner, mergeValue, mergeCombiners), numPartitions)

    def groupByKey(self, numPartitions: int | None = None) -> DStream[tuple[Any, Iterable[Any]]]:
        """Gather the values of each key, batch by batch."""
        partitions = self._sc.defaultParallelism if numPartitions is None else numPartitions
        return self.transform(lambda rdd: rdd.groupByKey(partitions))

    def reduce(self, func: Callable[[Any, Any], Any]) -> DStream[T]:
        """Reduce each batch to one record; an empty batch gives none."""
        return self._narrow(functions.Map(_keyed), False).reduceByKey(func, 1)._narrow(functions.Map(_value), False)

    def count(self) -> DStream[int]:
        """Count the records of each batch; an empty batch counts 0."""
        sc = self._sc

        def counts(rdd: RDD[Any]) -> RDD[int]:
            found = rdd.mapPartitionsWithIndex(functions.CountRecords())
            return found if rdd.getNumPartitions() else sc.parallelize([0], 1)

        return self.transform(counts).reduce(operator.add)

    def countByValue(self) -> DStream[tuple[T, int]]:
        """Count the occurrences of each distinct record, batch by batch."""
        return self.map(_counted).reduceByKey(operator.add)

    def repartition(self, numPartitions: int) -> DStream[T]:
        """Change the number of partitions of each RDD."""
        return self.transform(lambda rdd: rdd.repartition(numPartitions))

    def union(self, other: DStream[Any]) -> DStream[Any]:
        """Put the records of two streams together.

        Raises:
            ValueError: their slide durations differ.
        """
        if self.slide_ms != other.slide_ms:
            raise ValueError("the two DStream should have same slide duration")
        return UnionDStream((self, other))

    def transform(self, func: Callable[..., Any]) -> DStream[Any]:
        """Make each RDD into another: ``func(rdd)`` or ``func(time, rdd)``. Runs once a batch, on the driver.

        Raises:
            AssertionError: the function takes neither one nor two arguments.
        """
        if takes_time(func, 1, "func should take one or two arguments"):
            return TransformedDStream((self,), func)
        return TransformedDStream((self,), lambda _time, rdd: func(rdd))

    def transformWith(
        self, func: Callable[..., Any], other: DStream[Any], keepSerializer: bool = False
    ) -> DStream[Any]:
        """Make one RDD of this stream's and another's: ``func(a, b)`` or ``func(time, a, b)``, once a batch.

        Args:
            func: runs on the driver. A stream without an RDD for the batch gives an empty one.
            other: the other stream.
            keepSerializer: accepted for PySpark's signature; an RDD knows its own.

        Raises:
            AssertionError: the function takes neither two nor three arguments.
            ValueError: the slide durations differ.
        """
        if takes_time(func, 2, "func should take two or three arguments"):
            return TransformedDStream((self, other), func)
        return TransformedDStream((self, other), lambda _time, a, b: func(a, b))

    def partitionBy(
        self, numPartitions: int, partitionFunc: Callable[[Any], int] = portable_hash
    ) -> DStream[tuple[Any, Any]]:
        """Put the pairs of each batch into partitions by their keys."""
        return self.transform(lambda rdd: rdd.partitionBy(numPartitions, partitionFunc))

    def cogroup(self, other: DStream[Any], numPartitions: int | None = None) -> DStream[tuple[Any, Any]]:
        """Gather the values of each key in both streams, batch by batch."""
        return self._joined(RDD.cogroup, other, numPartitions)

    def join(self, other: DStream[Any], numPartitions: int | None = None) -> DStream[tuple[Any, Any]]:
        """Pair the values of keys that are in both streams, batch by batch."""
        return self._joined(RDD.join, other, numPartitions)

    def leftOuterJoin(self, other: DStream[Any], numPartitions: int | None = None) -> DStream[tuple[Any, Any]]:
        """Pair the values of this stream's keys with the other's or ``None``, batch by batch."""
        return self._joined(RDD.leftOuterJoin, other, numPartitions)

    def rightOuterJoin(self, other: DStream[Any], numPartitions: int | None = None) -> DStream[tuple[Any, Any]]:
        """Pair this stream's values or ``None`` with those of the other's keys, batch by batch."""
        return self._joined(RDD.rightOuterJoin, other, numPartitions)

    def fullOuterJoin(self, other: DStream[Any], numPartitions: int | None = None) -> DStream[tuple[Any, Any]]:
        """Pair the values of all keys, ``None`` where one stream has none, batch by batch."""
        return self._joined(RDD.fullOuterJoin, other, numPartitions)

    def foreachRDD(self, func: Callable[..., Any]) -> None:
        """Hand each RDD to ``func(rdd)`` or ``func(time, rdd)``: an output operation.

        Raises:
            AssertionError: the function takes neither one nor two arguments.
        """
        if not takes_time(func, 1, "func should take one or two arguments"):
            without_time = func

            def func(_time: datetime, rdd: RDD[Any]) -> Any:
                return without_time(rdd)

        self._output("foreachRDD", func)

    def pprint(self, num: int = 10) -> None:
        """Print the first ``num`` records of each batch: an output operation."""

        def take_and_print(time: datetime, rdd: RDD[Any]) -> None:
            taken = rdd.take(num + 1)
            lines = ["-" * 43, f"Time: {time}", "-" * 43, *map(str, taken[:num])]
            if len(taken) > num:
                lines.append("...")
            # One call: lines of outputs that run at the same time stay together.
            print("\n".join([*lines, ""]), flush=True)

        self._output("pprint", take_and_print)

    def cache(self) -> DStream[T]:
        """Keep each RDD in memory (``MEMORY_ONLY``) as long as a stream needs it."""
        return self.persist(StorageLevel.MEMORY_ONLY)

    def persist(self, storageLevel: StorageLevel) -> DStream[T]:
        """Keep each RDD at a storage level as long as a stream needs it.

        Raises:
            StreamingStateError: the context was started.
        """
        self._context.check_can_build("persist")
        self._storage_level = storageLevel
        return self

    # -- for the operators above --

    def _narrow(self, function: PartitionFunction, preserves_partitioning: bool) -> DStream[Any]:
        return MapPartitionsDStream(self, function, preserves_partitioning)

    def _output(self, operation: str, function: Callable[[datetime, RDD[Any]], object]) -> None:
        ForEachDStream(self, function, call_site(operation))

    def _joined(self, operation: Callable[..., Any], other: DStream[Any], num_partitions: int | None) -> DStream[Any]:
        partitions = self._sc.defaultParallelism if num_partitions is None else num_partitions
        return self.transformWith(lambda a, b: operation(a, b, partitions), other)

    def _combiner(self, create: Any, merge_value: Any, merge_combiners: Any) -> functions.Combiner:
        limit = _parse_memory(self._sc.getConf().get("spark.python.worker.memory", "512m") or "512m")
        return functions.Combiner(create, merge_value, merge_combiners, limit)


def _same(value: Any) -> Any:
    return value


def _keyed(value: Any) -> tuple[None, Any]:
    return None, value


def _value(pair: tuple[Any, Any]) -> Any:
    return pair[1]


def _counted(value: Any) -> tuple[Any, int]:
    return value, 1


# They are DStreams: their files need the class above first.
from penstock.graph.combined import CombinedDStream  # noqa: E402
from penstock.graph.map_partitions import MapPartitionsDStream  # noqa: E402
from penstock.graph.output_stream import ForEachDStream  # noqa: E402
from penstock.graph.transformed import TransformedDStream  # noqa: E402
from penstock.graph.united import UnionDStream  # noqa: E402
