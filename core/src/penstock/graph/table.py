"""Tables: streams that carry pairs from batch to batch, and how programs see them.

Owns the union of a table's last RDD with what is new, co-partitioned by key, so that what is carried on is never
shuffled. A table's RDDs hold chunks; programs see the pairs, through a view. Computed on the generator's loop.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from attrs import frozen
from pyspark import RDD
from pyspark.core.rdd import portable_hash

from penstock.graph.arguments import partitions
from penstock.graph.dstream import DStream
from penstock.graph.map_partitions import MapPartitionsDStream
from penstock.spark.checkpoint import checkpoint_file
from penstock.spark.co_partitioned import checkpointed_table, co_partitioned_union
from penstock.worker.functions import PartitionFunction

if TYPE_CHECKING:
    from pyspark import StorageLevel


class TableDStream(DStream[Any]):
    """A stream each of whose RDDs is made of the one before.

    Args:
        parent: what is new.
        num_partitions: of the table.
    """

    must_checkpoint = spans_batches = True

    def __init__(self, parent: DStream[Any], num_partitions: int | None = None) -> None:
        super().__init__(parent.context(), (parent,))
        self._parent = parent
        self.num_partitions = partitions(num_partitions, self._sc.defaultParallelism)
        self.keep()

    @property
    def home(self) -> str:
        """Where it keeps more than RDDs, as a path or URI; empty for nowhere."""
        return ""

    @property
    def partition_function(self) -> Callable[[Any], int]:
        """From a key to a number, whose remainder is the partition."""
        return portable_hash

    def go_on_from(self, files: Mapping[int, str], num_partitions: int, home: str) -> None:
        """Take up what an earlier run checkpointed: tables by time, in so many partitions, and what is in ``home``."""
        self.num_partitions, self._files = num_partitions, dict(files)
        for time_ms, path in files.items():
            saved = checkpointed_table(self._sc, path, num_partitions, self.partition_function)
            rdd = self._moved(saved)
            self._generated[time_ms] = rdd.persist(self._storage_level) if self._storage_level else rdd

    def _moved(self, saved: RDD[Any]) -> RDD[Any]:
        """A table whose directory may be elsewhere now."""
        return saved

    def checkpoint_youngest(self) -> None:
        """Checkpoint what the last batch made of it, in a job of its own; on the thread that stops the engine."""
        time_ms = max(self._generated, default=-1)
        if time_ms < 0 or time_ms in self.checkpointed():
            return
        copy = self._generated[time_ms].mapPartitionsWithIndex(_Same(), True)
        copy.checkpoint()
        copy.count()
        path = checkpoint_file(copy)
        if path is not None:
            self._files[time_ms] = path

    def _merged(self, rdds: Sequence[RDD[Any]], merge: PartitionFunction) -> RDD[Any]:
        union = co_partitioned_union(self._sc, rdds, self.num_partitions)
        return union.mapPartitionsWithIndex(merge, True)

    def compute(self, time_ms: int) -> RDD[Any] | None:
        """The table as it is after a batch; ``None`` for a past that was forgotten, and cannot be made again."""
        if any(time > time_ms for time in self._generated):
            return None
        # A batch before this one that is still to be tried again comes first, lest what it brings be left out.
        for unmade_ms in sorted(self._graph.unmade):
            if max(self._generated, default=0) < unmade_ms < time_ms:
                self.get_or_compute(unmade_ms)
        return self.carry_on(time_ms)

    def is_forgettable(self, time_ms: int) -> bool:
        """All but the youngest: the next one is made of it, however many batches fail in between."""
        return time_ms < max(self._generated)

    @abstractmethod
    def carry_on(self, time_ms: int) -> RDD[Any] | None:
        """Make the table after a batch from the youngest there is."""


@frozen
class _Same:
    """A partition as it is."""

    def __call__(self, _index: int, elements: Iterable[Any]) -> Iterable[Any]:
        """All of it."""
        return elements


class TableView(MapPartitionsDStream):
    """What programs see of a table. To keep or checkpoint it is to keep or checkpoint the table."""

    def __init__(self, table: TableDStream, function: PartitionFunction) -> None:
        super().__init__(table, function, True)
        self._table = table

    def persist(self, storageLevel: StorageLevel) -> DStream[Any]:
        """Keep the table's RDDs at that level."""
        self._table.persist(storageLevel)
        return self

    def setName(self, name: str) -> Self:
        """Name the table."""
        self._table.setName(name)
        return super().setName(name)

    def checkpoint(self, interval: float) -> DStream[Any]:
        """Checkpoint the table, every ``interval`` seconds."""
        self._table.checkpoint(interval)
        return self
