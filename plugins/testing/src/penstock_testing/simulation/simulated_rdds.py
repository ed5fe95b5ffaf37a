"""The RDDs of a simulated cluster, evaluated as plain Python. RDD checkpoints are files on the simulated disk."""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import RDD, StorageLevel, cloudpickle
from pyspark.core.rdd import Partitioner, portable_hash
from pyspark.serializers import read_long

if TYPE_CHECKING:
    from penstock_testing.simulation.simulated_cluster import SimulatedSparkContext

_Compute = Callable[[int], Iterable[Any]]


class SimulatedRDD(RDD[Any]):
    """Partitions that a function computes; the result is remembered while the RDD is persisted."""

    def __init__(
        self, sc: SimulatedSparkContext, number: int, compute: _Compute, parents: Sequence[SimulatedRDD] = ()
    ) -> None:
        self.ctx = self._sc = sc
        self.number = number
        self.partitioner: Any = None
        self.is_cached = False
        self.is_checkpointed = False
        self.has_resource_profile = False
        self._number_of_rdd = sc.next_rdd_id()
        self._name: str | None = None
        self._compute = compute
        self._parents = tuple(parents)
        self._persisted: dict[int, list[Any]] = {}
        self._file: str | None = None

    # -- as Spark's --

    def _is_barrier(self) -> bool:
        return False

    def id(self) -> int:
        return self._number_of_rdd

    def name(self) -> str | None:
        return self._name

    def setName(self, name: str) -> SimulatedRDD:
        self._name = name
        return self

    def getNumPartitions(self) -> int:
        return self.number

    def mapPartitionsWithIndex(self, f: Any, preservesPartitioning: bool = False) -> SimulatedRDD:
        mapped = SimulatedPipelinedRDD(self, f)
        if preservesPartitioning:
            mapped.partitioner = self.partitioner
        return mapped

    def partitionBy(self, numPartitions: Any, partitionFunc: Any = portable_hash) -> Any:
        partitioner = Partitioner(numPartitions, partitionFunc)
        if self.partitioner == partitioner:
            return self

        def compute(index: int) -> Iterator[Any]:
            pairs = (pair for number in range(self.number) for pair in self.partition(number))
            return (pair for pair in pairs if partitionFunc(pair[0]) % numPartitions == index)

        shuffled = SimulatedRDD(self._sc, numPartitions, compute, [self])
        shuffled.partitioner = partitioner
        return shuffled

    def union(self, other: Any) -> Any:
        return self._sc.union([self, other])

    def persist(self, storageLevel: StorageLevel = StorageLevel.MEMORY_ONLY) -> Any:
        self.is_cached = True
        return self

    def unpersist(self, blocking: bool = False) -> Any:
        self.is_cached = False
        self._persisted = {}
        return self

    def checkpoint(self) -> None:
        self.is_checkpointed = True

    def isCheckpointed(self) -> bool:
        return self._file is not None

    def getCheckpointFile(self) -> str | None:
        return self._file

    def collect(self) -> list[Any]:
        return [record for partition in self._sc.run_job(self) for record in partition]

    def count(self) -> int:
        return len(self.collect())

    # -- evaluation, in a task --

    def partition(self, index: int) -> list[Any]:
        """The records of a partition."""
        if index in self._persisted:
            return self._persisted[index]
        if self._file is not None:
            records: list[Any] = pickle.loads(self._sc.disk.content(f"{self._file}/part-{index:05d}"))
        else:
            records = list(self._compute(index))
        if self.is_cached or self.is_checkpointed:
            self._persisted[index] = records
        return records

    def write_checkpoints(self) -> None:
        """Write the files of all marked ancestors, and of this RDD, after a job."""
        for parent in self._parents:
            if self._file is None:
                parent.write_checkpoints()
        if self.is_checkpointed and self._file is None:
            file = f"{self._sc.checkpoint_directory}/rdd-{self._number_of_rdd}"
            for index in range(self.number):
                path, data = f"{file}/part-{index:05d}", cloudpickle.dumps(self.partition(index))
                self._sc.disk.operate("write", path)
                self._sc.disk.put(path, data, sync=False)
            self._file = file
            self.forget_lineage()

    def forget_lineage(self) -> None:
        """Release the RDDs that this one was computed from."""
        self._parents = ()
        self._compute = _no_partition


class SimulatedPipelinedRDD(SimulatedRDD):
    """The result of a partition function."""

    def __init__(self, prev: SimulatedRDD, func: Callable[[int, Iterable[Any]], Iterable[Any]]) -> None:
        super().__init__(prev._sc, prev.number, lambda index: func(index, iter(prev.partition(index))), [prev])
        self.prev: SimulatedRDD | None = prev
        self.func = func

    def forget_lineage(self) -> None:
        super().forget_lineage()
        self.prev = None


class SimulatedBlocksRDD(SimulatedPipelinedRDD):
    """As ``BlocksRDD``."""

    def __init__(self, slots: SimulatedRDD, number: int, read: Any, count: Any, blocks: Any = None) -> None:
        super().__init__(slots, read)
        self.number = number
        self._count_partition = count
        self.blocks = blocks

    def count(self) -> int:
        return sum(self.mapPartitionsWithIndex(self._count_partition).collect())


def _no_partition(index: int) -> Iterable[Any]:
    raise AssertionError(f"partition {index} of a checkpointed RDD is computed instead of read")


def collection_rdd(sc: SimulatedSparkContext, partitions: Sequence[Sequence[Any]]) -> SimulatedRDD:
    """An RDD of given partitions."""
    held = [list(partition) for partition in partitions]
    return SimulatedRDD(sc, len(held), lambda index: held[index])


def united(sc: SimulatedSparkContext, rdds: Sequence[SimulatedRDD]) -> SimulatedRDD:
    """The partitions of several RDDs, one after the other."""
    places = [(rdd, index) for rdd in rdds for index in range(rdd.number)]
    return SimulatedRDD(sc, len(places), lambda number: places[number][0].partition(places[number][1]), rdds)


def located_rdd(sc: SimulatedSparkContext, partitions: Sequence[Any]) -> SimulatedRDD:
    """As ``penstock.spark.rdds.located_rdd``; every host is the same."""
    return collection_rdd(sc, [[partition.element] for partition in partitions])


def shuffled(chunks: SimulatedRDD, num_partitions: int) -> SimulatedRDD:
    """As ``penstock.spark.rdds.shuffled``."""

    def compute(index: int) -> Iterator[Any]:
        for number in range(chunks.number):
            items = chunks.partition(number)
            for target, chunk in zip(items[::2], items[1::2], strict=True):
                if read_long(io.BytesIO(target)) == index:
                    yield pickle.loads(chunk)

    result = SimulatedRDD(chunks._sc, num_partitions, compute, [chunks])
    result.partitioner = Partitioner(num_partitions, portable_hash)
    return result


def co_partitioned_union(sc: SimulatedSparkContext, rdds: Sequence[SimulatedRDD], num_partitions: int) -> SimulatedRDD:
    """As ``penstock_state.co_partitioned.co_partitioned_union``."""
    if len(rdds) == 1:
        return rdds[0]
    partitioner = rdds[0].partitioner
    if any(rdd.partitioner != partitioner or rdd.number != num_partitions for rdd in rdds):
        raise ValueError(f"the {len(rdds)} RDDs do not have the same partitioner into {num_partitions} partitions")

    def compute(index: int) -> Iterator[Any]:
        return itertools.chain.from_iterable(rdd.partition(index) for rdd in rdds)

    result = SimulatedRDD(sc, num_partitions, compute, rdds)
    result.partitioner = partitioner
    return result


def checkpointed_state(
    sc: SimulatedSparkContext, path: str, num_partitions: int, partition_function: Any
) -> SimulatedRDD:
    """As ``penstock.spark.rdds.checkpointed_state``."""
    parts = [name for name in sc.disk.below(path) if name.rpartition("/")[2].startswith("part-")]
    if len(parts) != num_partitions:
        raise FileNotFoundError(f"{path} has {len(parts)} of {num_partitions} partitions")
    result = SimulatedRDD(sc, num_partitions, lambda index: pickle.loads(sc.disk.content(parts[index])))
    result.partitioner = Partitioner(num_partitions, partition_function)
    return result


def unpickled(rdd: SimulatedRDD) -> SimulatedRDD:
    """As the RDD, with a copy of its partition function, by pickling as in Spark."""
    assert isinstance(rdd, SimulatedPipelinedRDD)
    assert rdd.prev is not None
    return SimulatedPipelinedRDD(rdd.prev, pickle.loads(cloudpickle.dumps(rdd.func)))
