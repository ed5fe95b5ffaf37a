"""RDDs whose partitions have places: the batch's references to blocks, and the one element of a receiver's job.

Owns the way of Python objects into ``SparkContext.makeRDD`` with preferred locations, which PySpark does not offer.
Called on the generator's loop and on launching threads.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from attrs import frozen
from pyspark import RDD, SparkContext
from pyspark.serializers import CPickleSerializer


@frozen
class LocatedPartition:
    """One partition of one element.

    Attributes:
        element: what the partition holds; pickled.
        hosts: where its task should run, as Spark names hosts; empty for anywhere.
    """

    element: Any
    hosts: tuple[str, ...] = ()


def located_rdd(sc: SparkContext, partitions: Sequence[LocatedPartition]) -> RDD[Any]:
    """Make an RDD of one element a partition; without partitions, an empty RDD."""
    if not partitions:
        return sc.emptyRDD()
    jvm: Any = sc._jvm
    rows = jvm.java.util.ArrayList()
    for partition in partitions:
        hosts = jvm.java.util.ArrayList()
        for host in partition.hosts:
            hosts.add(host)
        payload = pickle.dumps(partition.element, pickle.HIGHEST_PROTOCOL)
        rows.add(jvm.scala.Tuple2(payload, jvm.PythonUtils.toSeq(hosts)))
    byte_arrays = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    java_rdd = sc._jsc.sc().makeRDD(jvm.PythonUtils.toSeq(rows), byte_arrays).toJavaRDD()
    return RDD(java_rdd, sc, CPickleSerializer())
