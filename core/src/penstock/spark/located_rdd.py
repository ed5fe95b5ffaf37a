"""RDDs of Python objects with preferred locations: a batch's block references, a receiver's job.

Calls Scala's ``SparkContext.makeRDD``, which PySpark does not offer. On the generator's loop and on launching threads.
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
    """A partition with one element.

    Attributes:
        element: any object that can be pickled.
        hosts: preferred locations as Spark writes them; empty for none.
    """

    element: Any
    hosts: tuple[str, ...] = ()


def located_rdd(sc: SparkContext, partitions: Sequence[LocatedPartition]) -> RDD[Any]:
    """Create an RDD with one element per partition; an empty RDD for no partitions."""
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
