"""RDDs that are partitioned in the same way: their union, without a shuffle, and one that comes from a checkpoint.

Owns the calls that PySpark makes only for RDDs with one serializer, and only by keys. Called on the generator's loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from attrs import frozen
from pyspark import RDD, SparkContext
from pyspark.serializers import BatchedSerializer, CPickleSerializer, pack_long

# Elements that are pickled together; a table's are chunks.
_BATCH = 10


def co_partitioned_union(sc: SparkContext, rdds: Sequence[RDD[Any]], num_partitions: int) -> RDD[Any]:
    """Put the partitions of the same number together, in the order of the RDDs.

    Args:
        sc: of the RDDs.
        rdds: at least one; of Python objects, partitioned by one function into ``num_partitions``.
        num_partitions: of each.

    Raises:
        ValueError: they are not partitioned alike.
    """
    if len(rdds) == 1:
        return rdds[0]
    gateway: Any = sc._gateway
    jvm: Any = sc._jvm
    java_rdds = gateway.new_array(jvm.org.apache.spark.api.java.JavaRDD, len(rdds))
    for number, rdd in enumerate(rdds):
        java_rdds[number] = rdd._jrdd
    union = sc._jsc.union(java_rdds)
    # Spark puts RDDs that are not partitioned alike one behind the other: then a key would be in several partitions.
    if union.getNumPartitions() != num_partitions:
        raise ValueError(f"the {len(rdds)} RDDs are not partitioned alike, by one function into {num_partitions}")
    # Whatever batches each was pickled in, all are lists of records.
    return RDD(union, sc, BatchedSerializer(CPickleSerializer()))


def checkpointed_table(
    sc: SparkContext, path: str, num_partitions: int, partition_function: Callable[[Any], int]
) -> RDD[Any]:
    """Read what an RDD was checkpointed as, partitioned as it was.

    Spark knows a Python partitioner by the address of its function: that of an earlier process is nobody's. So the
    partitions are sent, whole, to the place they had.

    Args:
        sc: reads.
        path: of the checkpoint.
        num_partitions: that it has.
        partition_function: by which keys came to these.
    """
    serializer = CPickleSerializer()
    saved: RDD[Any] = sc._checkpointFile(path, BatchedSerializer(serializer))  # type: ignore[arg-type]
    keyed: Any = saved.mapPartitionsWithIndex(_ToItsPlace(serializer))
    keyed._bypass_serializer = True
    jvm: Any = sc._jvm
    pairs = jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()
    placed = pairs.partitionBy(jvm.PythonPartitioner(num_partitions, id(partition_function)))
    return RDD(jvm.PythonRDD.valueOfPair(placed), sc, BatchedSerializer(serializer))


@frozen
class _ToItsPlace:
    """A partition, with its number before each batch of its elements, in the form in which PySpark shuffles."""

    serializer: CPickleSerializer

    def __call__(self, index: int, elements: Iterable[Any]) -> Iterator[bytes]:
        """Number and batch by turns."""
        rest = iter(elements)
        while batch := list(itertools.islice(rest, _BATCH)):
            yield pack_long(index)
            yield self.serializer.dumps(batch)
