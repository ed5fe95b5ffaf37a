"""RDDs that PySpark cannot create: with preferred locations, or with the partitions of saved ones."""

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

# Number of elements per pickled chunk of a checkpointed state; the elements are large groups.
_CHUNK = 10
# Number of sets of preferred locations whose RDDs are remembered.
_MAX_PLACEHOLDERS = 64


# The classes, and their static methods, that PySpark and this module look up to create and run an RDD.
_LOOKED_UP = {
    "PairwiseRDD": (),
    "PythonPartitioner": (),
    "PythonRDD": ("collectAndServe", "runJob", "valueOfPair"),
    "PythonUtils": ("getBroadcastThreshold", "toSeq"),
    "SimplePythonFunction": (),
    "functions": ("col",),
}


def remember_classes(sc: SparkContext) -> None:
    """Look up the JVM's classes for all batches, for PySpark's code as well, because every look-up is a JVM call."""
    jvm: Any = getattr(sc, "_jvm", None)
    if jvm is None:
        return
    for name, methods in _LOOKED_UP.items():
        if name not in vars(jvm):
            java_class = getattr(jvm, name)
            vars(java_class).update({method: getattr(java_class, method) for method in methods})
            vars(jvm)[name] = java_class


@frozen
class LocatedPartition:
    """A partition with one element, and its preferred locations as Spark writes them."""

    element: Any
    hosts: tuple[str, ...] = ()
    num_bytes: int = 0


def as_rdd(sc: SparkContext, records: RDD[Any] | Iterable[Any]) -> RDD[Any]:
    """The RDD itself, or an RDD of a collection's records."""
    return records if isinstance(records, RDD) else sc.parallelize(records)


def located_rdd(sc: SparkContext, partitions: Sequence[LocatedPartition]) -> RDD[Any]:
    """Create an RDD with one element per partition; an empty RDD for no partitions."""
    if not partitions:
        java_context: Any = sc._jsc
        return _PlainRDD(java_context.emptyRDD(), sc, NoOpSerializer())
    jvm: Any = sc._jvm
    to_seq, pair, rows = jvm.PythonUtils.toSeq, jvm.scala.Tuple2, jvm.java.util.ArrayList()
    hosts = {names: to_seq(list(names)) for names in {partition.hosts for partition in partitions}}
    for partition in partitions:
        payload = pickle.dumps(partition.element, pickle.HIGHEST_PROTOCOL)
        rows.add(pair(payload, hosts[partition.hosts]))
    byte_arrays = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    java_rdd = sc._jsc.sc().makeRDD(to_seq(rows), byte_arrays).toJavaRDD()
    return _PlainRDD(java_rdd, sc, CPickleSerializer())


class _PlainRDD(RDD[Any]):
    """An RDD that is in no barrier stage, so that PySpark need not ask the JVM."""

    def _is_barrier(self) -> bool:
        return False


class BlocksRDD(PipelinedRDD[Any, Any]):
    """The records of partitions of blocks. Its number of partitions is known without a JVM call.

    ``slots`` has the same number of partitions, with the preferred locations of the blocks. ``read`` reads the blocks
    of a partition, and ``blocks`` is the same as one value, from which columns are read.
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


class PlaceholderRdds:
    """RDDs that define only the number and locations of partitions; the element of a partition is its index.

    Batches whose blocks are at the same locations share an RDD, so that its JVM object is created once.
    """

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc
        self._rdds: OrderedDict[tuple[tuple[str, ...], ...], RDD[Any]] = OrderedDict()

    def at(self, locations: Sequence[tuple[str, ...]]) -> RDD[Any]:
        """The shared RDD with one partition per item of preferred locations."""
        key = tuple(locations)
        if key not in self._rdds:
            slots = [LocatedPartition(index, hosts) for index, hosts in enumerate(key)]
            self._rdds[key] = located_rdd(self._sc, slots)
            if len(self._rdds) > _MAX_PLACEHOLDERS:
                self._rdds.popitem(last=False)
        self._rdds.move_to_end(key)
        return self._rdds[key]

    def located(self, partitions: Sequence[LocatedPartition]) -> RDD[Any]:
        """An RDD for one batch, with one element per partition."""
        return located_rdd(self._sc, partitions)

    def has(self, java_rdd: Any) -> bool:
        """Whether batches share this RDD of the JVM."""
        return any(rdd._jrdd is java_rdd for rdd in self._rdds.values())


def known_partitions(rdd: RDD[Any]) -> int | None:
    """The number of partitions of an RDD that is computed from blocks, else ``None``; asks the JVM nothing."""
    first = first_of(rdd)
    return first.getNumPartitions() if isinstance(first, BlocksRDD) else None


def first_of(rdd: RDD[Any]) -> RDD[Any]:
    """The RDD with which a chain of partition functions begins; it has the same partitions."""
    while isinstance(rdd, PipelinedRDD) and not isinstance(rdd, BlocksRDD):
        rdd = rdd.prev
    return rdd


def num_partitions(rdd: RDD[Any]) -> int | None:
    """The number of partitions; ``None`` if it is not available, for instance because the input is missing.

    Only the query of an RDD that Penstock did not create calls the JVM.
    """
    rdd = first_of(rdd)
    if rdd.partitioner is not None:
        return rdd.partitioner.numPartitions
    try:
        return rdd.getNumPartitions()
    except Exception:
        return None


def shuffled(chunks: RDD[bytes], num_partitions: int) -> RDD[Any]:
    """Shuffle pickled chunks of pairs, partitioned by the keys' portable hash.

    The input is the number of a partition and a pickled chunk for it, alternately.
    """
    result = _PlainRDD(_placed(chunks, num_partitions, portable_hash), chunks.ctx, CPickleSerializer())
    result.partitioner = Partitioner(num_partitions, portable_hash)
    return result


def _placed(chunks: RDD[bytes], num_partitions: int, partition_function: Callable[[Any], int]) -> Any:
    """The RDD of the JVM with every chunk in the partition of the number before it."""
    bypassing: Any = chunks
    bypassing._bypass_serializer = True
    jvm: Any = chunks.ctx._jvm
    pairs = jvm.PairwiseRDD(bypassing._jrdd.rdd()).asJavaPairRDD()
    return jvm.PythonRDD.valueOfPair(pairs.partitionBy(jvm.PythonPartitioner(num_partitions, id(partition_function))))


def checkpointed_state(
    sc: SparkContext, path: str, num_partitions: int, partition_function: Callable[[Any], int]
) -> RDD[Any]:
    """Read a checkpointed RDD and restore its partitioner.

    Spark compares Python partitioners by the address of their function, which differs between processes. Therefore
    every partition is shuffled, as a whole, to the partition of its number.
    """
    serializer = BatchedSerializer(CPickleSerializer())
    saved: RDD[Any] = sc._checkpointFile(path, serializer)  # type: ignore[arg-type]
    chunks = saved.mapPartitionsWithIndex(_numbered_chunks)
    return RDD(_placed(chunks, num_partitions, partition_function), sc, serializer)


def _numbered_chunks(index: int, elements: Iterable[Any]) -> Iterator[bytes]:
    """The number of a partition and a pickled chunk of its elements, alternately."""
    rest = iter(elements)
    while chunk := list(itertools.islice(rest, _CHUNK)):
        yield pack_long(index)
        yield pickle.dumps(chunk, pickle.HIGHEST_PROTOCOL)
