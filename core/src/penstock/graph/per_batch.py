"""The nodes of operators on single batches: ``mapPartitions``, ``combineByKey``, ``union`` and ``transform``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.core.rdd import Partitioner, portable_hash

from penstock.errors import ResultTypeError
from penstock.graph.arguments import require_num_partitions
from penstock.graph.batch_input import BatchInput, inputs_of
from penstock.graph.input_dstreams import ReceiverInputDStream
from penstock.graph.node import Node, with_ancestors
from penstock.spark.rdds import BlocksRDD, first_of, num_partitions, shuffled
from penstock.worker.combine import Buckets, Combiner, CombineValues, MergeChunks
from penstock.worker.fused import AnyStep, FusedChain, TerminalStep

if TYPE_CHECKING:
    from penstock.graph.dstream_graph import DStreamGraph


class MapPartitionsDStream(Node):
    """The result of an operator on partitions, fused with the operators of parents that are not persisted."""

    def __init__(self, parent: Node, step: AnyStep, preserves_partitioning: bool = True) -> None:
        super().__init__(parent.graph, (parent,))
        self.step = step
        self.preserves_partitioning = preserves_partitioning

    def compute(self, time_ms: int) -> RDD[Any] | None:
        source, steps, preserves = _fused(self)
        rdd = source.get_or_compute(time_ms)
        return None if rdd is None else rdd.mapPartitionsWithIndex(FusedChain(steps), preserves)


def _fused(node: Node) -> tuple[Node, tuple[AnyStep, ...], bool]:
    """The nearest ancestor with an RDD, the operators from it to the node, and whether they preserve partitioning."""
    steps, preserves = list[AnyStep](), True
    while isinstance(node, MapPartitionsDStream) and (not steps or node.is_fusible):
        steps.append(node.step)
        preserves = preserves and node.preserves_partitioning
        node = node.parents[0]
    return node, tuple(reversed(steps)), preserves


class ShuffledDStream(Node):
    """``combineByKey``: combine the values of a key within partitions, shuffle, and combine again.

    There is no shuffle if a key is in one partition already. That is the case if the input is partitioned like the
    result, or if it is a small single partition and the program requested no other number. By default the result has
    a partition per task slot without receivers.
    """

    def __init__(
        self, parent: Node, combiner: Combiner, num_partitions: int | None, map_side: TerminalStep | None = None
    ) -> None:
        super().__init__(parent.graph, (parent,))
        self.combiner = combiner
        self._map_side = map_side or CombineValues(combiner)
        self.requested_partitions = None if num_partitions is None else require_num_partitions(num_partitions)
        self._is_fixed = False

    @property
    def num_partitions(self) -> int:
        """The number of partitions after a shuffle."""
        if self.requested_partitions is not None:
            return self.requested_partitions
        return self.graph.state_partitions if self._is_fixed else self.graph.free_slots()

    def fix_partitions(self, num_partitions: int | None = None) -> None:
        """Give every RDD the same number of partitions, because the RDDs are united partition by partition."""
        self._is_fixed = True
        self.requested_partitions = num_partitions or self.requested_partitions

    def compute(self, time_ms: int) -> RDD[Any] | None:
        parent = self.parents[0]
        source, steps, preserves = _fused(parent) if parent.is_fusible else (parent, (), True)
        rdd = source.get_or_compute(time_ms)
        if rdd is None:
            return None
        if not self._is_fixed and self._is_single(rdd):
            return rdd.mapPartitionsWithIndex(FusedChain((*steps, self._map_side)), preserves)
        number = self.num_partitions
        if preserves and rdd.partitioner == Partitioner(number, portable_hash):
            return rdd.mapPartitionsWithIndex(FusedChain((*steps, self._map_side)), True)
        chunks = rdd.mapPartitionsWithIndex(FusedChain((*steps, self._map_side, Buckets(number))))
        return shuffled(chunks, number).mapPartitionsWithIndex(FusedChain((MergeChunks(self.combiner),)), True)

    def _is_single(self, rdd: RDD[Any]) -> bool:
        """Whether an RDD has a single partition, or none, and the result may have the same number."""
        if self.requested_partitions not in (None, 1):
            return False
        first = first_of(rdd)
        if isinstance(first, BlocksRDD) and self.requested_partitions is None and self.graph.is_large(first.blocks):
            return False  # the operators after the reduction of one large block need all slots
        number = num_partitions(rdd)
        return number == 1 or (number == 0 and self.requested_partitions is None)


class UnionDStream(Node):
    """The records of several streams, at least one. A stream without an RDD in a batch has no records there."""

    keeps_records = True

    def persist_by_default(self) -> None:
        # Reading blocks is faster than reading RDDs that Spark persisted.
        if not all(isinstance(node, (UnionDStream, ReceiverInputDStream)) for node in with_ancestors([self])):
            super().persist_by_default()

    def compute(self, time_ms: int) -> RDD[Any]:
        rdds = [parent.get_or_compute(time_ms) for parent in self.parents]
        if self._parents_receiver_ids is not None:
            # Packed together, so that the partitions fit the whole batch, as for a single stream.
            return self.graph.blocks(time_ms, self._parents_receiver_ids).rdd(self.graph.placeholder_rdds)
        present = [rdd for rdd in rdds if rdd is not None]
        return self._sc.union(present) if present else self._sc.emptyRDD()

    def batch_inputs(self, time_ms: int) -> tuple[BatchInput, ...] | None:
        if not self.is_time_valid(time_ms):
            return None
        if self._parents_receiver_ids is not None:
            rdd = self.get_or_compute(time_ms)
            return None if rdd is None else inputs_of(rdd)
        batches = [parent.batch_inputs(time_ms) for parent in self.parents]
        united = tuple(itertools.chain.from_iterable(inputs or () for inputs in batches))
        # A persisted RDD saves running the parents' functions again.
        if self.is_fusible or not any(isinstance(item, RDD) for item in united):
            return united
        return super().batch_inputs(time_ms)

    @cached_property
    def receiver_ids(self) -> tuple[int, ...] | None:
        return self._parents_receiver_ids if self.is_fusible and self._checkpoint_ms is None else None

    @cached_property
    def _parents_receiver_ids(self) -> tuple[int, ...] | None:
        ids = [parent.receiver_ids for parent in self.parents]
        return None if None in ids else tuple(itertools.chain.from_iterable(parent or () for parent in ids))


class TransformedDStream(Node):
    """The RDDs that a function returns for the RDDs of the parents.

    The function is an operator's, or if it is foreign the program's. It gets the batch's datetime and the RDDs, with an
    empty RDD for a parent without one. ``None`` as a result means no RDD for this batch, as in PySpark.
    """

    runs_foreign_code = False

    def __init__(
        self, graph: DStreamGraph, parents: Sequence[Node], function: Callable[..., Any], *, is_foreign: bool
    ) -> None:
        super().__init__(graph, parents)
        self._function = function
        self.runs_foreign_code = is_foreign

    def compute(self, time_ms: int) -> RDD[Any] | None:
        rdds = [parent.get_or_compute(time_ms) for parent in self.parents]
        if len(rdds) == 1 and rdds[0] is None:
            return None
        present = [self._sc.emptyRDD() if rdd is None else rdd for rdd in rdds]
        result = self._function(self.datetime_of(time_ms), *present)
        if result is not None and not isinstance(result, RDD):
            raise ResultTypeError(
                f"{self.call_site.short}: the function given to transform returned {type(result).__name__}, not an RDD"
            )
        return result
