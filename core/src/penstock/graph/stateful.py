"""The common parts of nodes that carry pairs from batch to batch, for the plugin that offers such streams.

The last RDD and the new input are co-partitioned by key, so that state is never shuffled. The RDDs contain the pairs in
an internal form, which another node converts to the program's records.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark import RDD
from pyspark.core.rdd import portable_hash

from penstock.graph.arguments import require_num_partitions
from penstock.graph.node import Node
from penstock.spark.rdd_files import checkpoint_file
from penstock.spark.rdds import as_rdd, checkpointed_state
from penstock.worker.fused import CHECK_PAIRS, FusedChain

# The shortest default checkpoint interval (as in Spark).
_CHECKPOINT_MS = 10_000


class StatefulDStream(Node):
    """A stream that computes an RDD from the previous one, by default with a partition per slot without receivers.

    It is always checkpointed, because without checkpoints the lineage would grow with every batch. A plugin derives its
    own kinds of state from this class: they override ``advance_state``, and ``home`` if they have a state store.
    """

    #: Whether the state can begin without a checkpointed RDD.
    can_begin: bool = True

    def __init__(
        self,
        parent: Node,
        num_partitions: int | None,
        partition_function: Callable[[Any], int] = portable_hash,
        *,
        window_ms: int = 0,
        slide_ms: int | None = None,
    ) -> None:
        super().__init__(parent.graph, (parent,), window_ms, slide_ms)
        self._parent = parent
        self.partition_function = partition_function
        self._requested_partitions = None if num_partitions is None else require_num_partitions(num_partitions)
        self.set_checkpoint_interval(self.default_checkpoint_ms)
        self._recovered: dict[int, RDD[Any]] = {}

    @property
    def default_checkpoint_ms(self) -> int:
        """The checkpoint interval unless the program sets one."""
        return self.slide_ms * math.ceil(_CHECKPOINT_MS / self.slide_ms)

    @property
    def checkpoint_ms(self) -> int:
        """The checkpoint interval in force."""
        return self._checkpoint_ms or self.default_checkpoint_ms

    @property
    def num_partitions(self) -> int:
        """The number of partitions of every state."""
        return self._requested_partitions or self.graph.state_partitions

    @property
    def home(self) -> str:
        """Path or URI of the state store; empty for a stream without one."""
        return ""

    def recover(self, files: Mapping[int, str], num_partitions: int, home: str) -> None:
        """Take over the state of an earlier run: its checkpointed RDDs by batch time, and its state store."""
        self._requested_partitions = num_partitions
        self._files = dict(files)
        for time_ms, path in files.items():
            saved = checkpointed_state(self._sc, path, num_partitions, self.partition_function)
            rdd = self.relocated(saved, home)
            self._recovered[time_ms] = rdd.persist(self._storage_level) if self._storage_level else rdd
        self.restore(files)

    def restore(self, times_ms: Iterable[int]) -> None:
        """Continue from the recovered RDDs of some batches."""
        self._generated = {time_ms: self._recovered[time_ms] for time_ms in times_ms}

    def relocated(self, saved: RDD[Any], home: str) -> RDD[Any]:
        """The saved state with the current location of its state store."""
        return saved

    def checkpoint_newest(self) -> None:
        """Checkpoint the state after the last batch in a separate Spark job, when the engine stops."""
        time_ms = max(self._generated, default=-1)
        if time_ms < 0 or time_ms in self.checkpointed():
            return
        copy = self._generated[time_ms].mapPartitionsWithIndex(lambda _index, elements: elements, True)
        copy.checkpoint()
        copy.count()
        path = checkpoint_file(copy)
        if path is not None:
            self._files[time_ms] = path

    def partitioned(self, pairs: RDD[Any] | Iterable[Any]) -> RDD[Any]:
        """Check that records of the program are pairs, and partition them like the state."""
        checked = as_rdd(self._sc, pairs).mapPartitionsWithIndex(FusedChain((CHECK_PAIRS,)), True)
        return checked.partitionBy(self.num_partitions, self.partition_function)

    def compute(self, time_ms: int) -> RDD[Any] | None:
        if any(time > time_ms for time in self._generated):
            return None
        # An earlier batch with a pending retry comes first, so that the state does not skip its input; and so does one
        # whose blocks could not be allocated, because states also time out in a batch without input.
        for earlier_ms in sorted({*self.graph.retrying, *self.graph.unallocated}):
            if max(self._generated, default=0) < earlier_ms < time_ms:
                self.get_or_compute(earlier_ms)
        return self.advance_state(time_ms)

    def is_forgettable(self, time_ms: int) -> bool:
        return time_ms < max(self._generated)

    def _is_checkpoint(self, time_ms: int) -> bool:
        # The stream continues from the youngest recovered RDD, and then no longer knows the files of older ones.
        return super()._is_checkpoint(time_ms) and time_ms > max(self._recovered, default=-1)

    @abstractmethod
    def advance_state(self, time_ms: int) -> RDD[Any] | None:
        """Compute the state after a batch from the newest state."""
