"""RDDs with the same partitioner, merged partition by partition, without a shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.serializers import BatchedSerializer, CPickleSerializer


def merged(
    sc: SparkContext,
    rdds: Sequence[RDD[Any]],
    num_partitions: int,
    merge: Callable[[int, Iterable[Any]], Iterable[Any]],
) -> RDD[Any]:
    """Apply a function to the concatenated partitions of RDDs with the same partitioner, in the order of the RDDs."""
    return co_partitioned_union(sc, rdds, num_partitions).mapPartitionsWithIndex(merge, True)


def co_partitioned_union(sc: SparkContext, rdds: Sequence[RDD[Any]], num_partitions: int) -> RDD[Any]:
    """Concatenate partitions with the same number, in the order of the RDDs, which must have the same partitioner."""
    if len(rdds) == 1:
        return rdds[0]
    gateway: Any = sc._gateway
    jvm: Any = sc._jvm
    java_rdds = gateway.new_array(jvm.org.apache.spark.api.java.JavaRDD, len(rdds))
    for number, rdd in enumerate(rdds):
        java_rdds[number] = rdd._jrdd
    java_context: Any = sc._jsc
    union = java_context.union(java_rdds)
    # With different partitioners Spark appends the partitions, and a key would be in several of them.
    if union.getNumPartitions() != num_partitions:
        raise ValueError(f"the {len(rdds)} RDDs do not have the same partitioner into {num_partitions} partitions")
    # The serializers' batch sizes may differ, but all elements are pickled lists of records.
    return RDD(union, sc, BatchedSerializer(CPickleSerializer()))
