"""RDDs that PySpark cannot create: with preferred locations, and co-partitioned ones.

Called on the generator's loop and on launching threads.
"""

from __future__ import annotations

import itertools
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from attrs import frozen
from pyspark import RDD, SparkContext
from pyspark.core.rdd import Partitioner, PipelinedRDD, portable_hash
from pyspark.serializers import BatchedSerializer, CPickleSerializer, NoOpSerializer, pack_long

_Function = Callable[[int, Iterable[Any]], Iterable[Any]]

# Elements pickled together; the elements of a state store are chunks of it.
_BATCH = 10
# Sets of preferred locations whose RDDs are remembered.
_MAX_SLOTS = 64


# What PySpark and this module look up to create and run an RDD: classes and their static methods.
_LOOKED_UP = {
    "PairwiseRDD": (),
    "PythonPartitioner": (),
    "PythonRDD": ("collectAndServe", "runJob", "valueOfPair"),
    "PythonUtils": ("getBroadcastThreshold", "toSeq"),
    "SimplePythonFunction": (),
    "functions": ("col",),
}


def remember_classes(sc: SparkContext) -> None:
    """Look up once what every batch needs of the JVM, for PySpark's code as well: each lookup is a call."""
    jvm: Any = getattr(sc, "_jvm", None)
    if jvm is None:
        return
    for name, methods in _LOOKED_UP.items():
        if name not in vars(jvm):
            found = getattr(jvm, name)
            vars(found).update({method: getattr(found, method) for method in methods})
            vars(jvm)[name] = found


@frozen
class LocatedPartition:
    """A partition with one element.

    Attributes:
        element: any object that can be pickled.
        hosts: preferred locations as Spark writes them; empty for none.
        num_bytes: size of what it refers to.
    """

    element: Any
    hosts: tuple[str, ...] = ()
    num_bytes: int = 0


def as_rdd(sc: SparkContext, records: RDD[Any] | Iterable[Any]) -> RDD[Any]:
    """The RDD itself, or one of a collection's records."""
    return records if isinstance(records, RDD) else sc.parallelize(records)


def located_rdd(sc: SparkContext, partitions: Sequence[LocatedPartition]) -> RDD[Any]:
    """Create an RDD with one element per partition; an empty RDD for no partitions."""
    if not partitions:
        java_context: Any = sc._jsc
        return _PlainRDD(java_context.emptyRDD(), sc, NoOpSerializer())
    jvm: Any = sc._jvm
    to_seq, pair, rows = jvm.PythonUtils.toSeq, jvm.scala.Tuple2, jvm.java.util.ArrayList()
    hosts = {each: to_seq(list(each)) for each in {partition.hosts for partition in partitions}}
    for partition in partitions:
        payload = pickle.dumps(partition.element, pickle.HIGHEST_PROTOCOL)
        rows.add(pair(payload, hosts[partition.hosts]))
    byte_arrays = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    java_rdd = sc._jsc.sc().makeRDD(to_seq(rows), byte_arrays).toJavaRDD()
    return _PlainRDD(java_rdd, sc, CPickleSerializer())


class _PlainRDD(RDD[Any]):
    """An RDD of which it is known, without a call of the JVM, that it is in no barrier stage."""

    def _is_barrier(self) -> bool:
        return False


class BlocksRDD(PipelinedRDD[Any, Any]):
    """The records of some partitions of blocks. Knows its number of partitions without a call of the JVM.

    Args:
        slots: an RDD with that many partitions, and with the preferred locations of the blocks.
        number: the number of partitions.
        read: the partition function that reads the blocks of a partition.
        count: the partition function that gives the number of records.
        blocks: the same as one value, from which columns are read.
    """

    def __init__(self, slots: RDD[Any], number: int, read: _Function, count: _Function, blocks: Any = None) -> None:
        super().__init__(slots, read)
        self._number = number
        self._count = count
        self.blocks = blocks

    def getNumPartitions(self) -> int:
        return self._number

    def count(self) -> int:
        return sum(self.mapPartitionsWithIndex(self._count).collect())


class PartitionSlots:
    """RDDs that only say how many partitions there are and where; the functions of their tasks do the rest.

    The element of each partition is its index. Batches whose blocks are at the same locations share one, so that its
    JVM object is created once.

    Args:
        sc: creates the RDDs.
    """

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc
        self._made: OrderedDict[tuple[tuple[str, ...], ...], RDD[Any]] = OrderedDict()

    def at(self, locations: Sequence[tuple[str, ...]]) -> RDD[Any]:
        """The RDD with a partition for each of some preferred locations."""
        key = tuple(locations)
        if key not in self._made:
            slots = [LocatedPartition(index, hosts) for index, hosts in enumerate(key)]
            self._made[key] = located_rdd(self._sc, slots)
            if len(self._made) > _MAX_SLOTS:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return self._made[key]

    def located(self, partitions: Sequence[LocatedPartition]) -> RDD[Any]:
        """An RDD with an element of its own in each partition, for one batch."""
        return located_rdd(self._sc, partitions)

    def has(self, java_rdd: Any) -> bool:
        """Whether batches share this RDD of the JVM."""
        return any(rdd._jrdd is java_rdd for rdd in self._made.values())


def known_partitions(rdd: RDD[Any]) -> int | None:
    """The number of partitions of an RDD that is computed from blocks, else ``None``; asks the JVM nothing."""
    first = first_of(rdd)
    return first.getNumPartitions() if isinstance(first, BlocksRDD) else None


def first_of(rdd: RDD[Any]) -> RDD[Any]:
    """The RDD with the same partitions that a chain of partition functions begins with."""
    while isinstance(rdd, PipelinedRDD) and not isinstance(rdd, BlocksRDD):
        rdd = rdd.prev
    return rdd


def num_partitions(rdd: RDD[Any]) -> int | None:
    """The number of partitions; ``None`` if it cannot be found, for instance because the input is missing.

    Asks the JVM only about RDDs that Penstock did not create.
    """
    rdd = first_of(rdd)
    if rdd.partitioner is not None:
        return rdd.partitioner.numPartitions
    try:
        return rdd.getNumPartitions()
    except Exception:
        return None


def shuffled(chunks: RDD[bytes], num_partitions: int) -> RDD[Any]:
    """Shuffle pickled chunks of pairs to their partitions, in which equal keys have the same portable hash.

    Args:
        chunks: the number of a partition and a pickled chunk for it, alternately.
        num_partitions: the number of partitions of the result.

    Returns:
        The chunks.
    """
    bypassing: Any = chunks
    bypassing._bypass_serializer = True
    sc: Any = chunks.ctx
    pairs = sc._jvm.PairwiseRDD(bypassing._jrdd.rdd()).asJavaPairRDD()
    placed = pairs.partitionBy(sc._jvm.PythonPartitioner(num_partitions, id(portable_hash)))
    result = _PlainRDD(sc._jvm.PythonRDD.valueOfPair(placed), sc, CPickleSerializer())
    result.partitioner = Partitioner(num_partitions, portable_hash)
    return result


def co_partitioned_union(sc: SparkContext, rdds: Sequence[RDD[Any]], num_partitions: int) -> RDD[Any]:
    """Concatenate partitions with the same number, in the order of the RDDs.

    Args:
        sc: the RDDs' SparkContext.
        rdds: at least one; RDDs of Python objects with the same partitioner.
        num_partitions: number of partitions of each.

    Raises:
        ValueError: the RDDs have different partitioners.
    """
    if len(rdds) == 1:
        return rdds[0]
    gateway: Any = sc._gateway
    jvm: Any = sc._jvm
    java_rdds = gateway.new_array(jvm.org.apache.spark.api.java.JavaRDD, len(rdds))
    for number, rdd in enumerate(rdds):
        java_rdds[number] = rdd._jrdd
    union = sc._jsc.union(java_rdds)
    # With different partitioners Spark appends the partitions, and a key would be in several of them.
    if union.getNumPartitions() != num_partitions:
        raise ValueError(f"the {len(rdds)} RDDs do not have the same partitioner into {num_partitions} partitions")
    # The batch sizes of the serializers may differ; all contain pickled lists of records.
    return RDD(union, sc, BatchedSerializer(CPickleSerializer()))


def checkpointed_state(
    sc: SparkContext, path: str, num_partitions: int, partition_function: Callable[[Any], int]
) -> RDD[Any]:
    """Read a checkpointed RDD and restore its partitioner.

    Spark compares Python partitioners by the address of their function, which differs in each process. So each
    partition is shuffled, as a whole, to the partition of its number.

    Args:
        sc: the SparkContext that reads.
        path: path of the checkpointed RDD.
        num_partitions: its number of partitions.
        partition_function: the function that assigned keys to them.
    """
    serializer = CPickleSerializer()
    saved: RDD[Any] = sc._checkpointFile(path, BatchedSerializer(serializer))  # type: ignore[arg-type]
    keyed: Any = saved.mapPartitionsWithIndex(_NumberPartition(serializer))
    keyed._bypass_serializer = True
    jvm: Any = sc._jvm
    pairs = jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()
    placed = pairs.partitionBy(jvm.PythonPartitioner(num_partitions, id(partition_function)))
    return RDD(jvm.PythonRDD.valueOfPair(placed), sc, BatchedSerializer(serializer))


@frozen
class _NumberPartition:
    """Puts a partition's number before each batch of its elements: PySpark's input for a shuffle."""

    serializer: CPickleSerializer

    def __call__(self, index: int, elements: Iterable[Any]) -> Iterator[bytes]:
        """Yield number and pickled batch alternately."""
        rest = iter(elements)
        while batch := list(itertools.islice(rest, _BATCH)):
            yield pack_long(index)
            yield self.serializer.dumps(batch)
