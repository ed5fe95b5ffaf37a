"""Tables: streams that carry pairs from batch to batch, and how programs see them.

Owns the union of a table's last RDD with what is new, co-partitioned by key, so that what is carried on is never
shuffled. A table's RDDs hold chunks; programs see the pairs, through a view. Computed on the generator's loop.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark import RDD

from penstock.graph.dstream import DStream
from penstock.graph.functions import PartitionFunction
from penstock.graph.map_partitions import MapPartitionsDStream
from penstock.spark.co_partitioned import co_partitioned_union

if TYPE_CHECKING:
    from pyspark import StorageLevel


class TableDStream(DStream[Any]):
    """A stream each of whose RDDs is made of the one before.

    Args:
        parent: what is new.
        num_partitions: of the table.
    """

    must_checkpoint = True

    def __init__(self, parent: DStream[Any], num_partitions: int | None = None) -> None:
        super().__init__(parent.context(), (parent,))
        self._parent = parent
        self._num_partitions = self._sc.defaultParallelism if num_partitions is None else num_partitions
        self.keep()

    def _merged(self, rdds: Sequence[RDD[Any]], merge: PartitionFunction) -> RDD[Any]:
        union = co_partitioned_union(self._sc, rdds, self._num_partitions)
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


class TableView(MapPartitionsDStream):
    """What programs see of a table. To keep or checkpoint it is to keep or checkpoint the table."""

    def __init__(self, table: TableDStream, function: PartitionFunction) -> None:
        super().__init__(table, function, True)
        self._table = table

    def persist(self, storageLevel: StorageLevel) -> DStream[Any]:
        """Keep the table's RDDs at that level."""
        self._table.persist(storageLevel)
        return self

    def checkpoint(self, interval: float) -> DStream[Any]:
        """Checkpoint the table, every ``interval`` seconds."""
        self._table.checkpoint(interval)
        return self
