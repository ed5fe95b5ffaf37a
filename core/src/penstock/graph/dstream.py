"""``DStream``: a stream as a sequence of RDDs, one a batch, and the operators on it.

Owns what every stream has (parents, slide, remember duration, storage level, the RDDs it still remembers) and the
operators with PySpark's names, argument order and defaults. Never runs a Spark job: RDDs are made on the generator's
loop, evaluated on the job pool.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark import RDD, StorageLevel
from pyspark.core.rdd import portable_hash
from pyspark.util import _parse_memory

from penstock.errors import StreamingStateError
from penstock.graph import functions
from penstock.graph.arity import takes_time
from penstock.graph.call_site import call_site
from penstock.graph.functions import PartitionFunction

if TYPE_CHECKING:
    from penstock.context import StreamingContext

T = TypeVar("T", covariant=True)


class DStream(Generic[T]):
    """A stream of one context.

    Args:
        context: of the program.
        parents: the streams it is computed from.
    """

    def __init__(self, context: StreamingContext, parents: Iterable[DStream[Any]]) -> None:
        context.check_can_build(type(self).__name__)
        self._context = context
        self._sc = context.sparkContext
        self._graph = context.graph
        self._parents = tuple(parents)
        self._zero_time_ms: int | None = None
        self.remember_ms = 0
        self._storage_level: StorageLevel | None = None
        self._generated: dict[int, RDD[Any]] = {}

    # -- what a kind of stream overrides --

    @property
    def slide_ms(self) -> int:
        """Milliseconds between two RDDs."""
        return self._parents[0].slide_ms if self._parents else self._graph.batch_interval_ms

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """Make the RDD of a valid time, ``None`` for none."""
        raise TypeError(f"{type(self).__name__} must override compute")

    @property
    def parent_remember_ms(self) -> int:
        """How long parents must remember for this stream's sake."""
        return self.remember_ms

    # -- life --

    def initialize(self, zero_time_ms: int) -> None:
        """Fix zero time here and in the parents; remember at least one slide."""
        if self._zero_time_ms not in (None, zero_time_ms):
            raise StreamingStateError(f"{type(self).__name__} was initialized with another zero time")
        self._zero_time_ms = zero_time_ms
        self.remember_ms = max(self.remember_ms, self.slide_ms)
        for parent in self._parents:
            parent.initialize(zero_time_ms)

    def remember(self, duration_ms: int) -> None:
        """Remember at least so long, and have the parents remember what that takes."""
        self.remember_ms = max(self.remember_ms, duration_ms)
        for parent in self._parents:
            parent.remember(self.parent_remember_ms)

    def is_time_valid(self, time_ms: int) -> bool:
        """Say whether the stream has an RDD at a time.

        Raises:
            StreamingStateError: the context has not started.
        """
        if self._zero_time_ms is None:
            raise StreamingStateError(f"{type(self).__name__} has not been initialized")
        return time_ms > self._zero_time_ms and (time_ms - self._zero_time_ms) % self.slide_ms == 0

    def get_or_compute(self, time_ms: int) -> RDD[Any] | None:
        """The RDD of a time: remembered, or made now; ``None`` when the stream has none."""
        if time_ms in self._generated:
            return self._generated[time_ms]
        if not self.is_time_valid(time_ms):
            return None
        rdd = self.compute(time_ms)
        if rdd is None:
            return None
        if self._storage_level is not None:
            rdd.persist(self._storage_level)
        self._generated[time_ms] = rdd
        return rdd

    def clear_metadata(self, time_ms: int, *, unpersist: bool) -> None:
        """Forget RDDs as old as ``time_ms`` less the remember duration, here and in the parents."""
        old = [time for time in self._generated if time <= time_ms - self.remember_ms]
        for time in old:
            rdd = self._generated.pop(time)
            if unpersist and self._storage_level is not None:
                rdd.unpersist()
        for parent in self._parents:
            parent.clear_metadata(time_ms, unpersist=unpersist)

    @property
    def is_fusible(self) -> bool:
        """Whether a child may run this stream's function inside its own: not when its RDDs are kept."""
        return self._storage_level is None

    @staticmethod
    def datetime_of(time_ms: int) -> datetime:
        """A batch time as the program's functions get it: naive, local, as PySpark gives it."""
        return datetime.fromtimestamp(time_ms / 1000)

    # -- PySpark's methods --

    def context(self) -> StreamingContext:
        """The context that the stream belongs to."""
        return self._context

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
        from penstock.graph.output_stream import ForEachDStream  # it is a DStream: its file needs this one first

        ForEachDStream(self, function, call_site(operation))

    def _joined(self, operation: Callable[..., Any], other: DStream[Any], num_partitions: int | None) -> DStream[Any]:
        partitions = self._sc.defaultParallelism if num_partitions is None else num_partitions
        return self.transformWith(lambda a, b: operation(a, b, partitions), other)

    def _combiner(self, create: Any, merge_value: Any, merge_combiners: Any) -> functions.Combiner:
        limit = _parse_memory(self._sc.getConf().get("spark.python.worker.memory", "512m") or "512m")
        return functions.Combiner(create, merge_value, merge_combiners, limit)


class MapPartitionsDStream(DStream[Any]):
    """A stream whose RDDs come from a partition function, fused with those of the parents that are not kept."""

    def __init__(self, parent: DStream[Any], function: PartitionFunction, preserves_partitioning: bool) -> None:
        super().__init__(parent.context(), (parent,))
        self._parent, self._function, self._preserves_partitioning = parent, function, preserves_partitioning

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """One ``mapPartitionsWithIndex`` for the whole chain."""
        chain, preserves, source = [self._function], self._preserves_partitioning, self._parent
        while isinstance(source, MapPartitionsDStream) and source.is_fusible:
            chain.append(source._function)
            preserves = preserves and source._preserves_partitioning
            source = source._parent
        rdd = source.get_or_compute(time_ms)
        if rdd is None:
            return None
        return rdd.mapPartitionsWithIndex(functions.Fused(tuple(reversed(chain))), preserves)


class CombinedDStream(DStream[tuple[Any, Any]]):
    """``combineByKey``: combine in each partition, shuffle, combine again."""

    def __init__(self, parent: DStream[Any], combiner: functions.Combiner, num_partitions: int | None) -> None:
        super().__init__(parent.context(), (parent,))
        self._parent = parent._narrow(functions.CombineValues(combiner), True)
        self._parents = (self._parent,)
        self._combiner_side = functions.CombineCombiners(combiner)
        self._num_partitions = self._sc.defaultParallelism if num_partitions is None else num_partitions

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """The three steps."""
        rdd = self._parent.get_or_compute(time_ms)
        if rdd is None:
            return None
        shuffled = rdd.partitionBy(self._num_partitions, portable_hash)
        return shuffled.mapPartitionsWithIndex(self._combiner_side, True)


class TransformedDStream(DStream[Any]):
    """A stream whose RDDs the program's function makes of its parents'.

    Raises:
        ValueError: the parents' slide durations differ, or they belong to different contexts.
    """

    def __init__(self, parents: tuple[DStream[Any], ...], function: Callable[..., Any]) -> None:
        super().__init__(parents[0].context(), parents)
        if len({parent.slide_ms for parent in parents}) > 1:
            raise ValueError("the DStreams should have same slide duration")
        if any(parent.context() is not self._context for parent in parents):
            raise ValueError("the DStreams should belong to one StreamingContext")
        self._function = function

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """Call the function. A result of ``None`` means no RDD for this batch, as in PySpark."""
        rdds = [parent.get_or_compute(time_ms) for parent in self._parents]
        if len(rdds) == 1 and rdds[0] is None:
            return None
        present = [self._sc.emptyRDD() if rdd is None else rdd for rdd in rdds]
        made = self._function(self.datetime_of(time_ms), *present)
        if made is not None and not isinstance(made, RDD):
            raise TypeError(f"the function given to transform returned {type(made).__name__}, not an RDD")
        return made


class UnionDStream(DStream[Any]):
    """The records of several streams."""

    def __init__(self, parents: Iterable[DStream[Any]]) -> None:
        parents = tuple(parents)
        super().__init__(parents[0].context(), parents)

    def compute(self, time_ms: int) -> RDD[Any]:
        """The union of the parents' RDDs."""
        rdds = [parent.get_or_compute(time_ms) for parent in self._parents]
        missing = [type(parent).__name__ for parent, rdd in zip(self._parents, rdds, strict=True) if rdd is None]
        if missing:
            raise StreamingStateError(f"could not make the RDD of {missing[0]}, to be united, at time {time_ms} ms")
        return self._sc.union([rdd for rdd in rdds if rdd is not None])


def _same(value: Any) -> Any:
    return value


def _keyed(value: Any) -> tuple[None, Any]:
    return None, value


def _value(pair: tuple[Any, Any]) -> Any:
    return pair[1]


def _counted(value: Any) -> tuple[Any, int]:
    return value, 1
