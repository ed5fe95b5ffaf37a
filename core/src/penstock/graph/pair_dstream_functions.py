"""``PairDStreamFunctions``: the operators of ``DStream`` on key-value pairs, with PySpark's names and defaults."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark import RDD
from pyspark.core.rdd import portable_hash
from pyspark.resultiterable import ResultIterable

from penstock.graph.arguments import require_callable, require_num_partitions
from penstock.graph.node import Node
from penstock.graph.per_batch import MapPartitionsDStream, ShuffledDStream, TransformedDStream
from penstock.graph.state_spec import WindowOptions
from penstock.graph.windows import window_durations
from penstock.worker import functions
from penstock.worker.combine import Combiner
from penstock.worker.fused import CHECK_PAIRS, Kind, Step

if TYPE_CHECKING:
    from penstock.graph.dstream import DStream

T = TypeVar("T", covariant=True)
K = TypeVar("K")
V = TypeVar("V")
U = TypeVar("U")
C = TypeVar("C")


class PairDStreamFunctions(Generic[T]):
    """The operators of ``DStream`` on key-value pairs. Programs use them through ``DStream``."""

    _node: Node

    @abstractmethod
    def _derive(self, node: Node) -> DStream[Any]:
        """Wrap a new node of the same graph."""

    # -- one batch at a time --

    def mapValues(self: PairDStreamFunctions[tuple[K, V]], f: Callable[[V], U]) -> DStream[tuple[K, U]]:
        """Apply ``f`` to the value of every pair."""
        return self._narrow("mapValues", f)

    def flatMapValues(self: PairDStreamFunctions[tuple[K, V]], f: Callable[[V], Iterable[U]]) -> DStream[tuple[K, U]]:
        """Apply ``f`` to the value of every pair and flatten the results, which keep the key."""
        return self._narrow("flatMapValues", f)

    def reduceByKey(
        self: PairDStreamFunctions[tuple[K, V]], func: Callable[[V, V], V], numPartitions: int | None = None
    ) -> DStream[tuple[K, V]]:
        """Reduce the values of every key, batch by batch."""
        return self.combineByKey(functions.same, require_callable("func", func), func, numPartitions)

    def combineByKey(
        self: PairDStreamFunctions[tuple[K, V]],
        createCombiner: Callable[[V], C],
        mergeValue: Callable[[C, V], C],
        mergeCombiners: Callable[[C, C], C],
        numPartitions: int | None = None,
    ) -> DStream[tuple[K, C]]:
        """Combine the values of every key, batch by batch."""
        combiner = self._combiner(
            require_callable("createCombiner", createCombiner),
            require_callable("mergeValue", mergeValue),
            require_callable("mergeCombiners", mergeCombiners),
        )
        return self._derive(ShuffledDStream(self._node, combiner, numPartitions))

    def groupByKey(
        self: PairDStreamFunctions[tuple[K, V]], numPartitions: int | None = None
    ) -> DStream[tuple[K, Iterable[V]]]:
        """Group the values of every key, batch by batch."""
        groups = self._derive(ShuffledDStream(self._node, self._gathering(), numPartitions))
        return groups.mapValues(ResultIterable)

    def partitionBy(
        self: PairDStreamFunctions[tuple[K, V]],
        numPartitions: int,
        partitionFunc: Callable[[K], int] = portable_hash,
    ) -> DStream[tuple[K, V]]:
        """Partition the pairs of every batch by their keys."""
        count, function = require_num_partitions(numPartitions), require_callable("partitionFunc", partitionFunc)
        pairs = self._checked() if function is portable_hash else self._node
        return self._transformed((pairs,), lambda _time, rdd: rdd.partitionBy(count, function))

    def cogroup(
        self: PairDStreamFunctions[tuple[K, V]], other: DStream[tuple[K, U]], numPartitions: int | None = None
    ) -> DStream[tuple[K, tuple[ResultIterable[V], ResultIterable[U]]]]:
        """Group the values of every key in both streams, batch by batch."""
        return self._joined(RDD.cogroup, other, numPartitions)

    def join(
        self: PairDStreamFunctions[tuple[K, V]], other: DStream[tuple[K, U]], numPartitions: int | None = None
    ) -> DStream[tuple[K, tuple[V, U]]]:
        """Pair the values of the keys that are in both streams, batch by batch."""
        return self._joined(RDD.join, other, numPartitions)

    def leftOuterJoin(
        self: PairDStreamFunctions[tuple[K, V]], other: DStream[tuple[K, U]], numPartitions: int | None = None
    ) -> DStream[tuple[K, tuple[V, U | None]]]:
        """Pair the values of this stream's keys with the other stream's values or ``None``, batch by batch."""
        return self._joined(RDD.leftOuterJoin, other, numPartitions)

    def rightOuterJoin(
        self: PairDStreamFunctions[tuple[K, V]], other: DStream[tuple[K, U]], numPartitions: int | None = None
    ) -> DStream[tuple[K, tuple[V | None, U]]]:
        """Pair this stream's values or ``None`` with the values of the other stream's keys, batch by batch."""
        return self._joined(RDD.rightOuterJoin, other, numPartitions)

    def fullOuterJoin(
        self: PairDStreamFunctions[tuple[K, V]], other: DStream[tuple[K, U]], numPartitions: int | None = None
    ) -> DStream[tuple[K, tuple[V | None, U | None]]]:
        """Pair the values of all keys, with ``None`` where one stream lacks the key, batch by batch."""
        return self._joined(RDD.fullOuterJoin, other, numPartitions)

    # -- windows --

    def groupByKeyAndWindow(
        self: PairDStreamFunctions[tuple[K, V]],
        windowDuration: float,
        slideDuration: float,
        numPartitions: int | None = None,
    ) -> DStream[tuple[K, Iterable[V]]]:
        """Group the values of every key in a window, oldest first; needs the plugin for state."""
        options = WindowOptions(*window_durations(self._node, windowDuration, slideDuration))
        panes = self._derive(ShuffledDStream(self._node, self._gathering(), numPartitions))
        groups: DStream[tuple[K, list[V]]] = panes._state("groupByKeyAndWindow", options)
        return groups.mapValues(ResultIterable)

    def reduceByKeyAndWindow(
        self: PairDStreamFunctions[tuple[K, V]],
        func: Callable[[V, V], V],
        invFunc: Callable[[V, V], V] | None,
        windowDuration: float,
        slideDuration: float | None = None,
        numPartitions: int | None = None,
        filterFunc: Callable[[tuple[K, V]], object] | None = None,
    ) -> DStream[tuple[K, V]]:
        """Reduce the values of every key in a window; needs the plugin for state.

        Args:
            func: associative; gets the values in the order of time.
            invFunc: the inverse, ``invFunc(func(a, b), a) == b``. Every window is then computed from the previous one:
                this needs a checkpoint directory, and keys stay until the filter drops them. With ``None`` windows are
                reduced from panes, and their keys are those of their batches.
            windowDuration: seconds.
            slideDuration: seconds; by default the stream's slide duration.
            numPartitions: by default the number of task slots without receivers.
            filterFunc: drops the pairs for which it is false.
        """
        durations = window_durations(self._node, windowDuration, slideDuration)
        combiner = self._combiner(functions.same, require_callable("func", func), func)
        for name, function in (("invFunc", invFunc), ("filterFunc", filterFunc)):
            if function is not None:
                require_callable(name, function)
        panes = self._derive(ShuffledDStream(self._node, combiner, numPartitions))
        options = WindowOptions(*durations, invFunc, filterFunc)
        windows: DStream[tuple[K, V]] = panes._state("reduceByKeyAndWindow", options)
        return windows

    # -- inside --

    def _narrow(self, kind: Kind, f: Callable[[Any], Any], preserves_partitioning: bool = True) -> DStream[Any]:
        step = Step(kind, require_callable("f", f))
        return self._derive(MapPartitionsDStream(self._node, step, preserves_partitioning))

    def _transformed(
        self, parents: Sequence[Node], function: Callable[..., Any], *, is_foreign: bool = False
    ) -> DStream[Any]:
        return self._derive(TransformedDStream(self._node.graph, parents, function, is_foreign=is_foreign))

    def _checked(self) -> Node:
        return MapPartitionsDStream(self._node, CHECK_PAIRS)

    def _joined(
        self, operation: Callable[..., RDD[Any]], other: DStream[Any], num_partitions: int | None
    ) -> DStream[Any]:
        requested = None if num_partitions is None else require_num_partitions(num_partitions)
        # A checkpointed function refers to the graph by name: after a recovery it uses the new run's graph.
        pairs, graph = require_stream(operation.__name__, other)._checked(), self._node.graph
        return self._transformed(
            (self._checked(), pairs), lambda _time, a, b: operation(a, b, requested or graph.free_slots())
        )

    def _gathering(self) -> Combiner:
        return self._combiner(lambda value: [value], functions.appended, operator.iadd)

    def _combiner(self, create: Any, merge_value: Any, merge_combiners: Any) -> Combiner:
        return Combiner(create, merge_value, merge_combiners, self._node.graph.memory_limit_mb)


def require_stream(method: str, other: object) -> PairDStreamFunctions[Any]:
    """Check the other stream of an operator on several streams, and return it."""
    if not isinstance(other, PairDStreamFunctions):
        hint = "; transform can use an RDD" if hasattr(other, "mapPartitions") else ""
        raise TypeError(f"{method} takes a DStream, not {type(other).__name__}{hint}")
    return other
