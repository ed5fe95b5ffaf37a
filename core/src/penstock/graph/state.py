"""``StateDStream``: a table of states, made of the one before and of what is new.

Owns where a state begins (with the program's initial pairs, once), how new pairs come to its partitions, and the ledger
of what the program's function failed on. Computed on the generator's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from pyspark import RDD
from pyspark.core.rdd import portable_hash

from penstock.graph.dstream import DStream
from penstock.graph.failure_ledger import FailureLedger
from penstock.graph.table import TableDStream
from penstock.worker.chunk import ToChunks
from penstock.worker.functions import CheckPairs, PartitionFunction


class _Gone(Enum):
    """What a checkpoint cannot hold."""

    INITIAL = "initial states in an RDD"


class StateDStream(TableDStream):
    """The states of keys.

    Args:
        parent: pairs of key and new value.
        num_partitions: of the table.
        initial: pairs of key and state to begin with, ``None`` for none.
        partition_function: from a key to a number, whose remainder is the partition.
    """

    def __init__(
        self,
        parent: DStream[Any],
        num_partitions: int | None,
        initial: RDD[Any] | Iterable[Any] | None,
        partition_function: Callable[[Any], int] = portable_hash,
    ) -> None:
        super().__init__(parent._narrow(CheckPairs(), True), num_partitions)
        self._initial, self._partition_function = initial, partition_function
        self._failures = self._graph.add_ledger(FailureLedger(self._sc))

    def program_state(self) -> dict[str, Any]:
        """Without the ledger; and without initial states in an RDD, which lives no longer than its SparkContext."""
        initial = _Gone.INITIAL if isinstance(self._initial, RDD) else self._initial
        return {**super().program_state(), "_failures": None, "_initial": initial}

    def restored(self) -> None:
        """Begin another ledger."""
        self._failures = self._graph.add_ledger(FailureLedger(self._sc))

    @property
    def partition_function(self) -> Callable[[Any], int]:
        """From a key to a number, whose remainder is the partition."""
        return self._partition_function

    @property
    def can_begin(self) -> bool:
        """Whether it can do without a table of an earlier run."""
        return not isinstance(self._initial, _Gone)

    def _updated(self, time_ms: int, update: PartitionFunction) -> RDD[Any]:
        """The states after a batch. One without an RDD has no new values."""
        before, new = self._before(time_ms), self._parent.get_or_compute(time_ms)
        return self._merged([*before, self._partitioned(self._sc.emptyRDD() if new is None else new)], update)

    def _before(self, time_ms: int) -> list[RDD[Any]]:
        """The youngest table: of one slide before, or more where ticks were skipped."""
        times = [time for time in self._generated if time < time_ms]
        if times:
            return [self._generated[max(times)]]
        if self._initial is None or isinstance(self._initial, _Gone):
            return []
        initial = self._initial if isinstance(self._initial, RDD) else self._sc.parallelize(self._initial)
        checked = initial.mapPartitionsWithIndex(CheckPairs(), True)
        return [self._partitioned(checked).mapPartitionsWithIndex(ToChunks(time_ms), True)]

    def _partitioned(self, rdd: RDD[Any]) -> RDD[Any]:
        return rdd.partitionBy(self.num_partitions, self._partition_function)
