"""``DStream``: the API of a stream, with PySpark's operators, argument order and defaults.

A DStream wraps a node of the graph, as a DataFrame wraps a plan: an operator adds a node and returns a new DStream. The
nodes compute, remember and checkpoint the RDDs.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from pyspark import RDD, StorageLevel

from penstock.errors import shown
from penstock.graph.arguments import require_callable, require_num_partitions, with_time
from penstock.graph.input_dstreams import InputDStream
from penstock.graph.node import Node, OnDriver
from penstock.graph.outputs import ForEachDStream, PrintRecords, SaveFiles
from penstock.graph.pair_dstream_functions import PairDStreamFunctions, require_stream
from penstock.graph.per_batch import MapPartitionsDStream, ShuffledDStream, UnionDStream
from penstock.graph.state_spec import StateOptions, StateSpec, WindowOptions
from penstock.graph.windows import WindowedDStream, window_durations
from penstock.runtime.clock import milliseconds, require_duration_ms
from penstock.spark.rdds import num_partitions
from penstock.worker import functions
from penstock.worker.combine import CountRecords, CountValues

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from penstock.context import StreamingContext
    from penstock.graph.dataframe_stream import DataFrameStream, GroupedDStream

T = TypeVar("T", covariant=True)
U = TypeVar("U")
V = TypeVar("V")
K = TypeVar("K")
S = TypeVar("S")
M = TypeVar("M")


class DStream(OnDriver, PairDStreamFunctions[T]):
    """A stream of one StreamingContext: a sequence of RDDs, one per batch.

    Programs get streams from a StreamingContext and from the operators of other streams. Durations are in seconds.
    Window operators raise a ValueError for one that is not a multiple of the stream's slide duration. A function with
    another number of parameters than documented raises an AssertionError, as in PySpark.

    Args:
        node: computes the RDDs.
        ssc: the context that the stream belongs to.
    """

    def __init__(self, node: Node, ssc: StreamingContext) -> None:
        self._node = node
        self._ssc = ssc

    def __repr__(self) -> str:
        return f"<DStream {self._node.name or self._node.call_site.short}>"

    def context(self) -> StreamingContext:
        """The context that the stream belongs to."""
        return self._ssc

    @property
    def id(self) -> int:
        """The id of an input stream, by which events, rates and receiver infos refer to it; other streams have none."""
        if not isinstance(self._node, InputDStream):
            raise AttributeError(f"only input streams have an id, and this is a {type(self._node).__name__}")
        return self._node.id

    def setName(self, name: str) -> Self:
        """Name the stream: a recovered run finds its state by that name, even if the program has changed."""
        self._node.set_name(name)
        return self

    # -- one batch at a time --

    # Without the overloads for pairs, pyright infers tuple[str, Literal[1]] for `(word, 1)`, which reduceByKey rejects.
    @overload
    def map(self, f: Callable[[T], tuple[K, V]], preservesPartitioning: bool = False) -> DStream[tuple[K, V]]: ...

    @overload
    def map(self, f: Callable[[T], U], preservesPartitioning: bool = False) -> DStream[U]: ...

    def map(self, f: Callable[[T], Any], preservesPartitioning: bool = False) -> DStream[Any]:
        """Apply ``f`` to every record."""
        return self._narrow("map", f, preservesPartitioning)

    @overload
    def flatMap(
        self, f: Callable[[T], Iterable[tuple[K, V]]], preservesPartitioning: bool = False
    ) -> DStream[tuple[K, V]]: ...

    @overload
    def flatMap(self, f: Callable[[T], Iterable[U]], preservesPartitioning: bool = False) -> DStream[U]: ...

    def flatMap(self, f: Callable[[T], Iterable[Any]], preservesPartitioning: bool = False) -> DStream[Any]:
        """Apply ``f`` to every record and flatten the results."""
        return self._narrow("flatMap", f, preservesPartitioning)

    def filter(self, f: Callable[[T], object]) -> DStream[T]:
        """Select the records for which ``f`` is true."""
        return self._narrow("filter", f)

    def mapPartitions(self, f: Callable[[Iterable[T]], Iterable[U]], preservesPartitioning: bool = False) -> DStream[U]:
        """Apply ``f`` to the records of every partition."""
        require_callable("f", f)
        return self.mapPartitionsWithIndex(lambda _index, records: f(records), preservesPartitioning)

    def mapPartitionsWithIndex(
        self, f: Callable[[int, Iterable[T]], Iterable[U]], preservesPartitioning: bool = False
    ) -> DStream[U]:
        """Apply ``f`` to the index and the records of every partition."""
        function = partial(functions.map_partitions_with_index, require_callable("f", f))
        return self._derive(MapPartitionsDStream(self._node, function, preservesPartitioning))

    def glom(self) -> DStream[list[T]]:
        """Turn every partition into one list."""
        return self.mapPartitions(lambda records: [list(records)])

    def reduce(self: DStream[U], func: Callable[[U, U], U]) -> DStream[U]:
        """Reduce every batch to one record; an empty batch has none."""
        return self.map(lambda record: (None, record)).reduceByKey(func, 1).map(lambda pair: pair[1])

    def count(self) -> DStream[int]:
        """Count the records of every batch; 0 for an empty batch."""
        sc = self._node.graph.spark_context
        counts = self._derive(MapPartitionsDStream(self._node, CountRecords(), False))
        nonempty = counts._transformed(
            (counts._node,), lambda _time, rdd: sc.parallelize([0], 1) if num_partitions(rdd) == 0 else rdd
        )
        return nonempty.reduce(operator.add)

    def countByValue(self) -> DStream[tuple[T, int]]:
        """Count the occurrences of the distinct records of every batch."""
        combiner = self._combiner(functions.same, operator.add, operator.add)
        return self._derive(ShuffledDStream(self._node, combiner, None, CountValues(combiner.memory_limit_mb)))

    def repartition(self, numPartitions: int) -> DStream[T]:
        """Change the number of partitions of every RDD."""
        count = require_num_partitions(numPartitions)
        return self._transformed((self._node,), lambda _time, rdd: rdd.repartition(count))

    def union(self, other: DStream[U]) -> DStream[T | U]:
        """Unite the records of two streams of one context with the same slide duration."""
        node = require_stream("union", other)._node
        if self._node.slide_ms != node.slide_ms:
            raise ValueError(
                "the two DStream should have same slide duration, and have "
                f"{self._node.slide_ms / 1000:g} s and {node.slide_ms / 1000:g} s: give their windows the same "
                "slideDuration"
            )
        return self._derive(UnionDStream(self._node.graph, (self._node, node)))

    @overload
    def transform(self, func: Callable[[RDD[T]], RDD[U] | None]) -> DStream[U]: ...

    @overload
    def transform(self, func: Callable[[datetime, RDD[T]], RDD[U] | None]) -> DStream[U]: ...

    def transform(self, func: Callable[..., Any]) -> DStream[Any]:
        """Turn every RDD into another: ``func(rdd)`` or ``func(time, rdd)``. Runs on the driver, once per batch."""
        function = with_time(func, 1, "func should take one or two arguments")
        return self._transformed((self._node,), function, is_foreign=True)

    @overload
    def transformWith(
        self, func: Callable[[RDD[T], RDD[V]], RDD[U] | None], other: DStream[V], keepSerializer: bool = False
    ) -> DStream[U]: ...

    @overload
    def transformWith(
        self,
        func: Callable[[datetime, RDD[T], RDD[V]], RDD[U] | None],
        other: DStream[V],
        keepSerializer: bool = False,
    ) -> DStream[U]: ...

    def transformWith(
        self, func: Callable[..., Any], other: DStream[Any], keepSerializer: bool = False
    ) -> DStream[Any]:
        """Turn the RDDs of two streams into one: ``func(a, b)`` or ``func(time, a, b)``, once per batch.

        Args:
            func: runs on the driver; gets an empty RDD for a stream without an RDD in the batch.
            other: the other stream.
            keepSerializer: accepted for PySpark's signature; an RDD knows its own serializer.
        """
        function = with_time(func, 2, "func should take two or three arguments")
        return self._transformed((self._node, require_stream("transformWith", other)._node), function, is_foreign=True)

    # -- windows --

    def window(self, windowDuration: float, slideDuration: float | None = None) -> DStream[T]:
        """All records of the last ``windowDuration`` seconds, every ``slideDuration`` seconds."""
        return self._derive(WindowedDStream(self._node, *window_durations(self._node, windowDuration, slideDuration)))

    def reduceByWindow(
        self: DStream[U],
        reduceFunc: Callable[[U, U], U],
        invReduceFunc: Callable[[U, U], U] | None,
        windowDuration: float,
        slideDuration: float,
    ) -> DStream[U]:
        """Reduce all records of a window to one. See ``reduceByKeyAndWindow``."""
        keyed = self.map(lambda record: (None, record))
        reduced = keyed.reduceByKeyAndWindow(reduceFunc, invReduceFunc, windowDuration, slideDuration, 1)
        return reduced.map(lambda pair: pair[1])

    def countByWindow(self, windowDuration: float, slideDuration: float) -> DStream[int]:
        """Count the records of a window."""
        return self.map(functions.one).reduceByWindow(operator.add, operator.sub, windowDuration, slideDuration)

    def countByValueAndWindow(
        self, windowDuration: float, slideDuration: float, numPartitions: int | None = None
    ) -> DStream[tuple[T, int]]:
        """Count the occurrences of the distinct records in a window."""
        return self.map(functions.counted).reduceByKeyAndWindow(
            operator.add, operator.sub, windowDuration, slideDuration, numPartitions, lambda pair: pair[1] > 0
        )

    # -- state --

    def updateStateByKey(
        self: DStream[tuple[K, V]],
        updateFunc: Callable[[list[V], S | None], S | None],
        numPartitions: int | None = None,
        initialRDD: RDD[tuple[K, S]] | Iterable[tuple[K, S]] | None = None,
    ) -> DStream[tuple[K, S]]:
        """Update a state per key; needs a checkpoint directory.

        If the function fails for a key, the key keeps its state and the batch fails; all other keys are updated.

        Args:
            updateFunc: called in every batch for every key with a state or new values. It gets the list of new values
                and the state, or ``None``, and returns the new state, or ``None`` to remove the key.
            numPartitions: by default the number of task slots without receivers.
            initialRDD: pairs of key and initial state.

        Raises:
            ConfigurationError: the plugin for state is not installed.
        """
        function = require_callable("updateFunc", updateFunc)
        options = StateOptions(function, initial=initialRDD, num_partitions=numPartitions)
        states: DStream[tuple[K, S]] = self._state("updateStateByKey", options)
        return states

    def mapWithState(self: DStream[tuple[K, V]], spec: StateSpec[K, V, S, M]) -> MapWithStateDStream[K, S, M]:
        """Map every record with the state of its key; needs a checkpoint directory.

        The cost is proportional to the batch, not to the number of keys.

        Args:
            spec: created with ``StateSpec.function``.

        Returns:
            The results of the mapping function; ``stateSnapshots`` of that stream are the states.

        Raises:
            ConfigurationError: the plugin for state is not installed.
        """
        if not isinstance(spec, StateSpec):
            raise TypeError(
                f"mapWithState takes a StateSpec, made with StateSpec.function(f); not {type(spec).__name__}"
            )
        mapped: MapWithStateDStream[K, S, M] = self._state("mapWithState", spec.options)
        return mapped

    # -- storage --

    def cache(self) -> Self:
        """Persist every RDD in memory (``MEMORY_ONLY``) for as long as a stream needs it."""
        return self.persist(StorageLevel.MEMORY_ONLY)

    def persist(self, storageLevel: StorageLevel) -> Self:
        """Persist every RDD at a storage level for as long as a stream needs it.

        Raises:
            StreamingStateError: the context was started.
            TypeError: it is not a storage level.
        """
        self._node.graph.check_can_build("persist")
        if not isinstance(storageLevel, StorageLevel):
            raise TypeError(
                f"persist takes a StorageLevel, such as StorageLevel.MEMORY_ONLY, not {shown(storageLevel)}"
            )
        self._node.persist(storageLevel)
        return self

    def checkpoint(self, interval: float) -> Self:
        """Checkpoint every RDD whose time is a multiple of ``interval`` seconds, and persist the RDDs.

        Raises:
            ConfigurationError: the interval is not a positive number of milliseconds.
            StreamingStateError: the context was started.
        """
        self._node.graph.check_can_build("checkpoint")
        self._node.set_checkpoint_interval(require_duration_ms("interval", interval))
        return self

    def slice(self, begin: datetime | float, end: datetime | float) -> list[RDD[T]]:
        """The RDDs of the batches from ``begin`` to ``end``, both included, that are remembered or can be computed.

        Args:
            begin: a datetime, or seconds since the epoch; a time between two batches means the earlier one.
            end: the same; a time after the newest generated batch means that batch.

        Raises:
            StreamingStateError: the context has not started.
        """
        begin_ms, end_ms = (
            milliseconds(time.timestamp() if isinstance(time, datetime) else time) for time in (begin, end)
        )
        graph = self._node.graph
        with graph.lock:
            return self._node.rdds_between(begin_ms, min(end_ms, graph.last_time_ms))

    # -- DataFrames --

    def toDF(self, schema: DataType | str | None = None) -> DataFrameStream:
        """The batches as DataFrames.

        Args:
            schema: a StructType, or text in the form of Spark's DDL (``word string, count bigint``), to which records
                are converted. A single type (``string``) means one column ``value``. ``None``: the schema of the stored
                columns, which lines of text and Arrow batches have.

        Raises:
            ConfigurationError: the schema is invalid, or required because an operator has converted the columns to
                Python objects; or the plugin for DataFrames is not installed.
        """
        stream: DataFrameStream = self._ssc._plugins.first_answer("dataframes", stream=self, schema=schema)
        return stream

    @overload
    def foreachDataFrame(self, func: Callable[[DataFrame], object]) -> None: ...

    @overload
    def foreachDataFrame(self, func: Callable[[datetime, DataFrame], object]) -> None: ...

    def foreachDataFrame(self, func: Callable[..., object]) -> None:
        """Call ``func(df)`` or ``func(time, df)`` with every batch as a DataFrame: an output operation.

        See ``toDF``.
        """
        self.toDF().foreachDataFrame(func)

    # -- columns --

    def mapInArrow(self, func: Callable[[Iterator[pa.RecordBatch]], Iterable[Any]]) -> DStream[Any]:
        """Turn the Arrow record batches of every partition into others.

        The records of the result are the values of its only column, or Rows of several columns.

        Args:
            func: gets an iterator of record batches. It yields record batches, tables or other objects with Arrow's
                PyCapsule interface, all with the same columns.

        Raises:
            ConfigurationError: the plugin for DataFrames is not installed.
        """
        mapped: DStream[Any] = self._columns("mapInArrow", func)
        return mapped

    def mapInPandas(self, func: Callable[[Iterator[Any]], Iterable[Any]]) -> DStream[Any]:
        """Turn the pandas DataFrames of every partition into others. See ``mapInArrow``."""
        mapped: DStream[Any] = self._columns("mapInPandas", func)
        return mapped

    def groupBy(self, *cols: str | list[str]) -> GroupedDStream:
        """Group the records of every batch by columns, and aggregate the groups in Arrow: ``agg`` or ``count``."""
        grouped: GroupedDStream = self._columns("groupBy", *cols)
        return grouped

    def foreachTable(self, func: Callable[[pa.Table], object] | Callable[[datetime, pa.Table], object]) -> None:
        """Collect every batch as a pyarrow Table for ``func(table)`` or ``func(time, table)``: an output operation."""
        self._columns("foreachTable", func)

    # -- output operations --

    @overload
    def foreachRDD(self, func: Callable[[RDD[T]], object]) -> None: ...

    @overload
    def foreachRDD(self, func: Callable[[datetime, RDD[T]], object]) -> None: ...

    # For mypy, which cannot infer a lambda with a default, `lambda rdd, name=name: ...`, from the other overloads.
    @overload
    def foreachRDD(self, func: Callable[[RDD[T]], object] | Callable[[datetime, RDD[T]], object]) -> None: ...

    def foreachRDD(self, func: Callable[..., object]) -> None:
        """Call ``func(rdd)`` or ``func(time, rdd)`` with every RDD: an output operation."""
        ForEachDStream(self._node, with_time(func, 1, "func should take one or two arguments"))

    def pprint(self, num: int = 10) -> None:
        """Print the first ``num`` records of every batch: an output operation."""
        ForEachDStream(self._node, PrintRecords(num))

    def saveAsTextFiles(self, prefix: str, suffix: str | None = None) -> None:
        """Save every batch as text in a directory ``prefix-<ms>[.suffix]``: an output operation.

        A directory with the file ``_SUCCESS`` stays unchanged: an earlier attempt of the batch saved it. What an
        interrupted attempt left is deleted, and the batch is saved again. A directory with other files fails the batch.
        """
        ForEachDStream(self._node, SaveFiles(RDD.saveAsTextFile, prefix, suffix))

    def saveAsPickleFiles(self, prefix: str, suffix: str | None = None) -> None:
        """Save every batch as pickles in a directory ``prefix-<ms>[.suffix]``: an output operation.

        Scala calls it ``saveAsObjectFiles``; ``SparkContext.pickleFile`` reads it.
        """
        ForEachDStream(self._node, SaveFiles(RDD.saveAsPickleFile, prefix, suffix))

    # -- inside --

    def _derive(self, node: Node) -> DStream[Any]:
        return DStream(node, self._ssc)

    def _columns(self, operator: str, *arguments: Any) -> Any:
        return self._ssc._plugins.first_answer("columns", stream=self, operator=operator, arguments=arguments)

    def _state(self, operator: str, options: StateOptions | WindowOptions) -> Any:
        return self._ssc._plugins.first_answer("state", stream=self, operator=operator, options=options)


def node_of(stream: DStream[Any]) -> Node:
    """The node of the graph that computes a stream; plugins derive their own nodes from it."""
    return stream._node


class MapWithStateDStream(DStream[T], Generic[K, S, T]):
    """The results of the mapping function of ``mapWithState``."""

    @abstractmethod
    def stateSnapshots(self) -> DStream[tuple[K, S]]:
        """All keys and their states, in every batch."""
