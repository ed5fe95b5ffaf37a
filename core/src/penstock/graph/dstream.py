"""``DStream``: a stream as a sequence of RDDs, one a batch, with PySpark's operators.

Owns the operators' names, argument order and defaults. What a stream remembers, and when, is ``Stream``'s; what an
operator does in a task is in ``functions`` and ``tasks``. The kinds of streams that the operators make are DStreams
themselves, so that they are imported where they are made.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import RDD, StorageLevel
from pyspark.core.rdd import portable_hash
from pyspark.resultiterable import ResultIterable
from pyspark.util import _parse_memory

from penstock.graph.arguments import called, partitions, storage_level, stream
from penstock.graph.arity import takes_time
from penstock.graph.call_site import call_site
from penstock.graph.save_files import SaveFiles
from penstock.graph.stream import Stream
from penstock.runtime.clock import milliseconds, require_duration_ms
from penstock.worker import functions, records
from penstock.worker.chunk import ToPairs
from penstock.worker.functions import PartitionFunction

if TYPE_CHECKING:
    from penstock.graph.keyed_state import MapWithStateDStream
    from penstock.graph.state_spec import StateSpec

T = TypeVar("T", covariant=True)


class DStream(Stream[T]):
    """A stream of one context.

    Args:
        context: of the program.
        parents: the streams it is computed from.
    """

    def map(self, f: Callable[[T], Any], preservesPartitioning: bool = False) -> DStream[Any]:
        """Apply ``f`` to each record."""
        return self._narrow(functions.Map(called("f", f)), preservesPartitioning)

    def flatMap(self, f: Callable[[T], Iterable[Any]], preservesPartitioning: bool = False) -> DStream[Any]:
        """Apply ``f`` to each record and flatten the results."""
        return self._narrow(functions.FlatMap(called("f", f)), preservesPartitioning)

    def filter(self, f: Callable[[T], Any]) -> DStream[T]:
        """Keep the records for which ``f`` is true."""
        return self._narrow(functions.Filter(called("f", f)), True)

    def mapPartitions(
        self, f: Callable[[Iterable[T]], Iterable[Any]], preservesPartitioning: bool = False
    ) -> DStream[Any]:
        """Apply ``f`` to the records of each partition."""
        return self._narrow(functions.MapPartitions(called("f", f)), preservesPartitioning)

    def mapPartitionsWithIndex(
        self, f: Callable[[int, Iterable[T]], Iterable[Any]], preservesPartitioning: bool = False
    ) -> DStream[Any]:
        """Apply ``f`` to the index and the records of each partition."""
        return self._narrow(functions.MapPartitionsWithIndex(called("f", f)), preservesPartitioning)

    def mapValues(self, f: Callable[[Any], Any]) -> DStream[tuple[Any, Any]]:
        """Apply ``f`` to the value of each pair."""
        return self._narrow(functions.MapValues(called("f", f)), True)

    def flatMapValues(self, f: Callable[[Any], Iterable[Any]]) -> DStream[tuple[Any, Any]]:
        """Apply ``f`` to the value of each pair and flatten; the key stays with each result."""
        return self._narrow(functions.FlatMapValues(called("f", f)), True)

    def glom(self) -> DStream[list[T]]:
        """Make one list of each partition."""
        return self._narrow(functions.Glom(), False)

    def reduceByKey(
        self, func: Callable[[Any, Any], Any], numPartitions: int | None = None
    ) -> DStream[tuple[Any, Any]]:
        """Reduce the values of each key, batch by batch."""
        return self.combineByKey(records.same, called("func", func), func, numPartitions)

    def combineByKey(
        self,
        createCombiner: Callable[[Any], Any],
        mergeValue: Callable[[Any, Any], Any],
        mergeCombiners: Callable[[Any, Any], Any],
        numPartitions: int | None = None,
    ) -> DStream[tuple[Any, Any]]:
        """Combine the values of each key, batch by batch."""
        from penstock.graph.combined import CombinedDStream

        combiner = self._combiner(
            called("createCombiner", createCombiner),
            called("mergeValue", mergeValue),
            called("mergeCombiners", mergeCombiners),
        )
        return CombinedDStream(self, combiner, numPartitions)

    def groupByKey(self, numPartitions: int | None = None) -> DStream[tuple[Any, Iterable[Any]]]:
        """Gather the values of each key, batch by batch."""
        return self.combineByKey(records.listed, records.appended, records.extended, numPartitions).mapValues(
            ResultIterable
        )

    def reduce(self, func: Callable[[Any, Any], Any]) -> DStream[T]:
        """Reduce each batch to one record; an empty batch gives none."""
        return (
            self._narrow(functions.Map(records.keyed), False)
            .reduceByKey(func, 1)
            ._narrow(functions.Map(records.value_of), False)
        )

    def count(self) -> DStream[int]:
        """Count the records of each batch; an empty batch counts 0."""
        sc = self._sc

        def counts(rdd: RDD[Any]) -> RDD[int]:
            found = rdd.mapPartitionsWithIndex(functions.CountRecords())
            return found if rdd.getNumPartitions() else sc.parallelize([0], 1)

        return self.transform(counts).reduce(operator.add)

    def countByValue(self) -> DStream[tuple[T, int]]:
        """Count the occurrences of each distinct record, batch by batch."""
        return self.map(records.counted).reduceByKey(operator.add)

    def repartition(self, numPartitions: int) -> DStream[T]:
        """Change the number of partitions of each RDD."""
        count = partitions(numPartitions)
        return self.transform(lambda rdd: rdd.repartition(count))

    def union(self, other: DStream[Any]) -> DStream[Any]:
        """Put the records of two streams together.

        Raises:
            TypeError: the other one is no stream.
            ValueError: their slide durations differ.
        """
        from penstock.graph.united import UnionDStream

        if self.slide_ms != stream("union", other).slide_ms:
            raise ValueError("the two DStream should have same slide duration")
        return UnionDStream((self, other))

    def transform(self, func: Callable[..., Any]) -> DStream[Any]:
        """Make each RDD into another: ``func(rdd)`` or ``func(time, rdd)``. Runs once a batch, on the driver.

        Raises:
            AssertionError: the function takes neither one nor two arguments.
        """
        from penstock.graph.transformed import TransformedDStream

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
        from penstock.graph.transformed import TransformedDStream

        if takes_time(func, 2, "func should take two or three arguments"):
            return TransformedDStream((self, stream("transformWith", other)), func)
        return TransformedDStream((self, stream("transformWith", other)), lambda _time, a, b: func(a, b))

    def partitionBy(
        self, numPartitions: int, partitionFunc: Callable[[Any], int] = portable_hash
    ) -> DStream[tuple[Any, Any]]:
        """Put the pairs of each batch into partitions by their keys."""
        count, function = partitions(numPartitions), called("partitionFunc", partitionFunc)
        pairs = self._pairs() if function is portable_hash else self
        return pairs.transform(lambda rdd: rdd.partitionBy(count, function))

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

            # By whose name a run that goes on knows the output.
            @wraps(without_time)
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

    def checkpoint(self, interval: float) -> DStream[T]:
        """Write each RDD whose time is a multiple of ``interval`` seconds to the checkpoint directory, and keep it.

        Raises:
            StreamingStateError: the context was started.
        """
        self._context.check_can_build("checkpoint")
        self.keep()
        self._checkpoint_ms = require_duration_ms("interval", interval)
        return self

    def persist(self, storageLevel: StorageLevel) -> DStream[T]:
        """Keep each RDD at a storage level as long as a stream needs it.

        Raises:
            StreamingStateError: the context was started.
            TypeError: it is no storage level.
        """
        self._context.check_can_build("persist")
        self._storage_level = storage_level(storageLevel)
        return self

    def slice(self, begin: datetime | float, end: datetime | float) -> list[RDD[T]]:
        """The RDDs of the batches from ``begin`` to ``end``, both included, that are remembered or can be made.

        Args:
            begin: a datetime, or seconds since the epoch; between two batches it means the earlier one.
            end: the same.

        Raises:
            StreamingStateError: the context has not started.
        """
        begin_ms, end_ms = (
            milliseconds(time.timestamp() if isinstance(time, datetime) else time) for time in (begin, end)
        )
        with self._graph.lock:
            return self.rdds_between(begin_ms, min(end_ms, self._graph.last_time_ms))

    def saveAsTextFiles(self, prefix: str, suffix: str | None = None) -> None:
        """Save each batch as text, in a directory ``prefix-<ms>[.suffix]``: an output operation.

        A directory that exists is left as it is: a batch that is run again has been saved.
        """
        self._output("saveAsTextFiles", SaveFiles(RDD.saveAsTextFile, prefix, suffix))

    def saveAsPickleFiles(self, prefix: str, suffix: str | None = None) -> None:
        """Save each batch as pickles, in a directory ``prefix-<ms>[.suffix]``: an output operation.

        What Scala calls ``saveAsObjectFiles``; ``SparkContext.pickleFile`` reads it.
        """
        self._output("saveAsPickleFiles", SaveFiles(RDD.saveAsPickleFile, prefix, suffix))

    # -- windows and state --

    def window(self, windowDuration: float, slideDuration: float | None = None) -> DStream[T]:
        """All records of the last ``windowDuration`` seconds, every ``slideDuration`` seconds.

        Raises:
            ValueError: a duration is no multiple of this stream's slide.
        """
        from penstock.graph.windowed import WindowedDStream, window_of

        return WindowedDStream(self, *window_of(self, windowDuration, slideDuration))

    def reduceByWindow(
        self,
        reduceFunc: Callable[[Any, Any], Any],
        invReduceFunc: Callable[[Any, Any], Any] | None,
        windowDuration: float,
        slideDuration: float,
    ) -> DStream[T]:
        """Reduce all records of a window to one. See ``reduceByKeyAndWindow``.

        Raises:
            ValueError: a duration is no multiple of this stream's slide.
        """
        keyed = self.map(records.keyed)
        return keyed.reduceByKeyAndWindow(reduceFunc, invReduceFunc, windowDuration, slideDuration, 1).map(
            records.value_of
        )

    def countByWindow(self, windowDuration: float, slideDuration: float) -> DStream[int]:
        """Count the records of a window.

        Raises:
            ValueError: a duration is no multiple of this stream's slide.
        """
        return self.map(records.one).reduceByWindow(operator.add, operator.sub, windowDuration, slideDuration)

    def countByValueAndWindow(
        self, windowDuration: float, slideDuration: float, numPartitions: int | None = None
    ) -> DStream[tuple[T, int]]:
        """Count the occurrences of each distinct record in a window.

        Raises:
            ValueError: a duration is no multiple of this stream's slide.
        """
        return self.map(records.counted).reduceByKeyAndWindow(
            operator.add, operator.sub, windowDuration, slideDuration, numPartitions, records.is_counted
        )

    def groupByKeyAndWindow(
        self, windowDuration: float, slideDuration: float, numPartitions: int | None = None
    ) -> DStream[tuple[Any, Iterable[Any]]]:
        """Gather the values of each key in a window, oldest first.

        Raises:
            ValueError: a duration is no multiple of this stream's slide.
        """
        from penstock.graph.combined import CombinedDStream
        from penstock.graph.reduced_window import ReducedWindowDStream
        from penstock.graph.windowed import window_of

        window_ms, slide_ms = window_of(self, windowDuration, slideDuration)
        panes = CombinedDStream(self, self._combiner(records.listed, records.appended, records.extended), numPartitions)
        return ReducedWindowDStream(panes, window_ms, slide_ms, gathers=True).mapValues(ResultIterable)

    def reduceByKeyAndWindow(
        self,
        func: Callable[[Any, Any], Any],
        invFunc: Callable[[Any, Any], Any] | None,
        windowDuration: float,
        slideDuration: float | None = None,
        numPartitions: int | None = None,
        filterFunc: Callable[[tuple[Any, Any]], Any] | None = None,
    ) -> DStream[tuple[Any, Any]]:
        """Reduce the values of each key in a window.

        Args:
            func: associative; gets values in the order of time.
            invFunc: the inverse, ``invFunc(func(a, b), a) == b``, by which a window is made from the one before; needs
                a checkpoint directory, and keys stay until the filter drops them. ``None`` for windows made of reduced
                panes, whose keys are those of their batches.
            windowDuration: seconds.
            slideDuration: seconds; the stream's slide by default.
            numPartitions: the default parallelism by default.
            filterFunc: pairs for which it is false are dropped.

        Raises:
            ValueError: a duration is no multiple of this stream's slide.
        """
        from penstock.graph.combined import CombinedDStream
        from penstock.graph.inverse_window import InverseWindowDStream
        from penstock.graph.reduced_window import ReducedWindowDStream
        from penstock.graph.table import TableView
        from penstock.graph.windowed import window_of

        window_ms, slide_ms = window_of(self, windowDuration, slideDuration)
        combiner = self._combiner(records.same, called("func", func), func)
        for name, function in (("invFunc", invFunc), ("filterFunc", filterFunc)):
            if function is not None:
                called(name, function)
        panes = CombinedDStream(self, combiner, numPartitions)
        if invFunc is not None:
            return TableView(InverseWindowDStream(panes, invFunc, window_ms, slide_ms, filterFunc), ToPairs())
        reduced = ReducedWindowDStream(panes, window_ms, slide_ms)
        return reduced if filterFunc is None else reduced.filter(filterFunc)

    def updateStateByKey(
        self,
        updateFunc: Callable[[Any, Any], Any],
        numPartitions: int | None = None,
        initialRDD: RDD[Any] | Iterable[Any] | None = None,
    ) -> DStream[tuple[Any, Any]]:
        """Keep a state for each key; needs a checkpoint directory.

        A key for which the function fails keeps its state and fails the batch; the other keys go on.

        Args:
            updateFunc: called in every batch for every key with a state or new values: from the list of new values and
                the state, or ``None``, to the new state, or ``None`` to forget the key.
            numPartitions: the default parallelism by default.
            initialRDD: pairs of key and state to begin with.
        """
        from penstock.graph.table import TableView
        from penstock.graph.updated_state import UpdatedStateDStream

        function = called("updateFunc", updateFunc)
        table = UpdatedStateDStream(self, function, numPartitions, initialRDD, self._memory_limit_mb)
        return TableView(table, ToPairs())

    def mapWithState(self, spec: StateSpec) -> MapWithStateDStream:
        """Keep a state for each key, at a cost in proportion to the batch; needs a checkpoint directory.

        Args:
            spec: made with ``StateSpec.function``.

        Returns:
            What the function returned for each record; its ``stateSnapshots`` are the states.

        Raises:
            TypeError: it is no StateSpec.
        """
        from penstock.graph.keyed_state import KeyedStateDStream, MapWithStateDStream
        from penstock.graph.state_spec import StateSpec

        if not isinstance(spec, StateSpec):
            raise TypeError(
                f"mapWithState takes a StateSpec, made with StateSpec.function(f); not {type(spec).__name__}"
            )
        return MapWithStateDStream(KeyedStateDStream(self, spec))

    # -- for the operators above --

    def _narrow(self, function: PartitionFunction, preserves_partitioning: bool) -> DStream[Any]:
        from penstock.graph.map_partitions import MapPartitionsDStream

        return MapPartitionsDStream(self, function, preserves_partitioning)

    def _pairs(self) -> DStream[Any]:
        return self._narrow(functions.CheckPairs(), True)

    def _output(self, operation: str, function: Callable[[datetime, RDD[Any]], object]) -> None:
        from penstock.graph.output_stream import ForEachDStream

        ForEachDStream(self, function, call_site(operation))

    def _joined(self, operation: Callable[..., Any], other: DStream[Any], num_partitions: int | None) -> DStream[Any]:
        count = partitions(num_partitions, self._sc.defaultParallelism)
        pairs = stream(operation.__name__, other)._pairs()
        return self._pairs().transformWith(lambda a, b: operation(a, b, count), pairs)

    def _combiner(self, create: Any, merge_value: Any, merge_combiners: Any) -> functions.Combiner:
        return functions.Combiner(create, merge_value, merge_combiners, self._memory_limit_mb)

    @property
    def _memory_limit_mb(self) -> float:
        return _parse_memory(self._sc.getConf().get("spark.python.worker.memory", "512m") or "512m")
