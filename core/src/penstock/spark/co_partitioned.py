"""The union of RDDs that are partitioned in the same way: partition by partition, without a shuffle.

Owns the call that PySpark makes only for RDDs with one serializer. Called on the generator's loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.serializers import BatchedSerializer, CPickleSerializer


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
