"""The common parts of nodes that carry pairs from batch to batch, and ``StateView``, the program's view of them.

The last RDD and the new input are co-partitioned by key, so that state is never shuffled. The RDDs contain the pairs in
an internal form, which a ``StateView`` converts to the program's records.
"""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pyspark import RDD, Accumulator, SparkContext, StorageLevel
from pyspark.core.rdd import portable_hash

from penstock.graph.arguments import require_num_partitions
from penstock.graph.node import Node
from penstock.graph.per_batch import MapPartitionsDStream
from penstock.spark.rdd_checkpoints import checkpoint_file
from penstock.spark.rdds import as_rdd, checkpointed_state, co_partitioned_union
from penstock.worker.functions import PartitionFunction
from penstock.worker.fused import CHECK_PAIRS, FusedChain
from penstock.worker.state_elements import MergeReported, PartitionErrors, Reported, to_state_pairs
from penstock.worker.state_tasks import UpdateState

# The shortest default checkpoint interval (as in Spark).
_CHECKPOINT_MS = 10_000

# Number of partitions whose raised errors are remembered, because a recomputed partition reports them again.
_REMEMBERED = 10_000


class StatefulDStream(Node):
    """A stream that computes an RDD from the previous one, by default with a partition per slot without receivers.

    It is always checkpointed, because without checkpoints the lineage would grow with every batch.
    """

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
            rdd = self._relocated(saved)
            self._generated[time_ms] = rdd.persist(self._storage_level) if self._storage_level else rdd

    def _relocated(self, saved: RDD[Any]) -> RDD[Any]:
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

    def _merged(self, rdds: Sequence[RDD[Any]], merge: PartitionFunction) -> RDD[Any]:
        union = co_partitioned_union(self._sc, rdds, self.num_partitions)
        return union.mapPartitionsWithIndex(merge, True)

    def compute(self, time_ms: int) -> RDD[Any] | None:
        if any(time > time_ms for time in self._generated):
            return None
        # An earlier batch with a pending retry comes first, so that the state does not skip its input.
        for retried_ms in sorted(self.graph.retrying):
            if max(self._generated, default=0) < retried_ms < time_ms:
                self.get_or_compute(retried_ms)
        return self.advance_state(time_ms)

    def is_forgettable(self, time_ms: int) -> bool:
        return time_ms < max(self._generated)

    @abstractmethod
    def advance_state(self, time_ms: int) -> RDD[Any] | None:
        """Compute the state after a batch from the newest state."""


class StateView(MapPartitionsDStream):
    """The program's view of a stateful stream. Names, persists and checkpoints the stateful stream itself."""

    def __init__(
        self, state: StatefulDStream, function: PartitionFunction, preserves_partitioning: bool = True
    ) -> None:
        super().__init__(state, function, preserves_partitioning)
        self.state = state

    def set_name(self, name: str) -> None:
        self.state.set_name(name)
        super().set_name(name)

    def persist(self, level: StorageLevel) -> None:
        self.state.persist(level)

    def set_checkpoint_interval(self, interval_ms: int) -> None:
        self.state.set_checkpoint_interval(interval_ms)


class StateErrors:
    """The errors of one stream's state function, reported by the tasks and raised on the driver when a job ends.

    The batch fails even if the program never reads the partition in which its function failed.
    """

    def __init__(self, sc: SparkContext) -> None:
        #: The tasks add their errors to this accumulator.
        self.reported: Accumulator[Reported] = sc.accumulator({}, MergeReported())
        self._raised: dict[tuple[int, int], None] = {}
        self._lock = threading.Lock()

    def raise_new(self) -> None:
        """Raise a ``StateUpdateError`` with the errors reported since the last call, if there are any."""
        with self._lock:
            reported: Reported = self.reported.value
            new: list[Any] = [(partition, reported.pop(partition)) for partition in list(reported)]
            new = [(partition, errors) for partition, errors in new if partition not in self._raised]
            self._raised.update(dict.fromkeys(partition for partition, _errors in new))
            while len(self._raised) > _REMEMBERED:
                del self._raised[next(iter(self._raised))]
        if new:
            raise PartitionErrors.merged([errors for _partition, errors in new]).as_exception()


class KeyedStateDStream(StatefulDStream):
    """A state per key, updated by a function of the program; ``parent`` and ``initial`` have key-value pairs."""

    def __init__(
        self,
        parent: Node,
        num_partitions: int | None,
        initial: RDD[Any] | Iterable[Any] | None,
        partition_function: Callable[[Any], int] = portable_hash,
    ) -> None:
        super().__init__(MapPartitionsDStream(parent, CHECK_PAIRS), num_partitions, partition_function)
        self._initial = initial
        #: False if the checkpoint of the program could not contain the initial states: then saved state is required.
        self.can_begin = True
        self.restored()

    def program_state(self) -> dict[str, Any]:
        state = {**super().program_state(), "_errors": None}
        return {**state, "_initial": None, "can_begin": False} if isinstance(self._initial, RDD) else state

    def restored(self) -> None:
        self._errors = StateErrors(self._sc)
        self.graph.state_errors.append(self._errors)

    def _updated(self, time_ms: int, update: PartitionFunction) -> RDD[Any]:
        """The states after a batch. A batch without an RDD has no new values."""
        previous, new = self._previous(time_ms), self._parent.get_or_compute(time_ms)
        return self._merged([*previous, self._partitioned(self._sc.emptyRDD() if new is None else new)], update)

    def _previous(self, time_ms: int) -> list[RDD[Any]]:
        """The newest states: of the previous slide, or older ones if ticks were skipped."""
        times = [time for time in self._generated if time < time_ms]
        if times:
            return [self._generated[max(times)]]
        if self._initial is None:
            return []
        checked = as_rdd(self._sc, self._initial).mapPartitionsWithIndex(FusedChain((CHECK_PAIRS,)), True)
        return [self._partitioned(checked).mapPartitionsWithIndex(partial(to_state_pairs, time_ms), True)]

    def _partitioned(self, rdd: RDD[Any]) -> RDD[Any]:
        return rdd.partitionBy(self.num_partitions, self.partition_function)


class StateDStream(KeyedStateDStream):
    """The states of ``updateStateByKey``; a worker spills when it uses more memory than the limit."""

    def __init__(
        self,
        parent: Node,
        update: Callable[[Any, Any], Any],
        num_partitions: int | None,
        initial: RDD[Any] | Iterable[Any] | None,
        memory_limit_mb: float,
    ) -> None:
        super().__init__(parent, num_partitions, initial)
        self._update = update
        self._limit_mb = memory_limit_mb

    def advance_state(self, time_ms: int) -> RDD[Any] | None:
        return self._updated(time_ms, UpdateState(time_ms, self._update, self._limit_mb, self._errors.reported))
