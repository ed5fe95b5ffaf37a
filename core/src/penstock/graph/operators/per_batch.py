"""The nodes of operators that look at one batch at a time. Computed on the generator's loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.core.rdd import portable_hash

from penstock.errors import StreamingStateError
from penstock.graph.arguments import require_num_partitions
from penstock.graph.batch_input import BatchInput, RowInput
from penstock.graph.node import Node
from penstock.plugins.specs import ArrowInput
from penstock.worker import functions
from penstock.worker.functions import PartitionFunction

if TYPE_CHECKING:
    from penstock.graph.dstream_graph import DStreamGraph


class MapPartitionsDStream(Node):
    """The result of a partition function. Functions of parents that are not persisted are fused with it.

    Args:
        parent: the input of the function.
        function: applied to each partition.
        preserves_partitioning: pairs stay in their partitions.
    """

    def __init__(self, parent: Node, function: PartitionFunction, preserves_partitioning: bool = True) -> None:
        super().__init__(parent.graph, (parent,))
        self._function, self._preserves_partitioning = function, preserves_partitioning

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """One ``mapPartitionsWithIndex`` for the whole chain."""
        chain, preserves, source = self._chain()
        rdd = source.get_or_compute(time_ms)
        if rdd is None:
            return None
        return rdd.mapPartitionsWithIndex(partial(functions.fused, chain), preserves)

    def batch_inputs(self, time_ms: int) -> tuple[BatchInput, ...] | None:
        """The chain over columns, where these are all of the source's batch; else the RDD."""
        chain, _preserves, source = self._chain()
        if self.is_fusible and source.has_columns:
            inputs = source.batch_inputs(time_ms)
            if not inputs:
                return inputs
            # A function may use the partition's index, which is another one in a union.
            if len(inputs) == 1 and isinstance(inputs[0], ArrowInput):
                return (RowInput(inputs[0], chain),)
        return super().batch_inputs(time_ms)

    def _chain(self) -> tuple[tuple[PartitionFunction, ...], bool, Node]:
        """The fused functions, whether they preserve the partitioning, and the stream that they are applied to."""
        chain, preserves, source = [self._function], self._preserves_partitioning, self.parents[0]
        while isinstance(source, MapPartitionsDStream) and source.is_fusible:
            chain.append(source._function)
            preserves = preserves and source._preserves_partitioning
            source = source.parents[0]
        return tuple(reversed(chain)), preserves, source


class ShuffledDStream(Node):
    """``combineByKey``: combine the values of each key within partitions, shuffle, and combine again.

    Args:
        parent: key-value pairs.
        combiner: how the values of a key are combined.
        num_partitions: partitions of the result; ``None`` for the default parallelism.
    """

    def __init__(self, parent: Node, combiner: functions.Combiner, num_partitions: int | None) -> None:
        super().__init__(parent.graph, (MapPartitionsDStream(parent, partial(functions.combine_values, combiner)),))
        self.combiner = combiner
        self.num_partitions = require_num_partitions(num_partitions, self._sc.defaultParallelism)

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """Shuffle the combined values of the parent, and combine again."""
        rdd = self.parents[0].get_or_compute(time_ms)
        if rdd is None:
            return None
        shuffled = rdd.partitionBy(self.num_partitions, portable_hash)
        return shuffled.mapPartitionsWithIndex(partial(functions.combine_combiners, self.combiner), True)


class UnionDStream(Node):
    """The records of several streams, at least one."""

    def compute(self, time_ms: int) -> RDD[Any]:
        """The union of the parents' RDDs.

        Raises:
            StreamingStateError: a parent has no RDD at that time.
        """
        rdds = [parent.get_or_compute(time_ms) for parent in self.parents]
        missing = [type(parent).__name__ for parent, rdd in zip(self.parents, rdds, strict=True) if rdd is None]
        if missing:
            raise StreamingStateError(f"{missing[0]}, a parent of a union, has no RDD at time {time_ms} ms")
        return self._sc.union([rdd for rdd in rdds if rdd is not None])

    def batch_inputs(self, time_ms: int) -> tuple[BatchInput, ...]:
        """The inputs of the parents.

        Raises:
            StreamingStateError: a parent has no batch at that time.
        """
        found = [parent.batch_inputs(time_ms) for parent in self.parents]
        if None in found:
            missing = type(self.parents[found.index(None)]).__name__
            raise StreamingStateError(f"{missing}, a parent of a union, has no RDD at time {time_ms} ms")
        return tuple(each for inputs in found for each in inputs or ())

    @property
    def has_columns(self) -> bool:
        """Whether the batches of all parents may consist of columns."""
        return all(parent.has_columns for parent in self.parents)


class TransformedDStream(Node):
    """The RDDs that a function of the program returns for the RDDs of the parents.

    Args:
        graph: the graph it belongs to.
        parents: the function gets their RDDs.
        function: called on the generator's loop with the batch's datetime and the RDDs; a parent without an RDD gives
            an empty one.
    """

    def __init__(self, graph: DStreamGraph, parents: Sequence[Node], function: Callable[..., Any]) -> None:
        super().__init__(graph, parents)
        self._function = function

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """Call the function. A result of ``None`` means no RDD for this batch, as in PySpark.

        Raises:
            TypeError: the function returned something else than an RDD.
        """
        rdds = [parent.get_or_compute(time_ms) for parent in self.parents]
        if len(rdds) == 1 and rdds[0] is None:
            return None
        present = [self._sc.emptyRDD() if rdd is None else rdd for rdd in rdds]
        result = self._function(self.datetime_of(time_ms), *present)
        if result is not None and not isinstance(result, RDD):
            raise TypeError(f"the function given to transform returned {type(result).__name__}, not an RDD")
        return result
