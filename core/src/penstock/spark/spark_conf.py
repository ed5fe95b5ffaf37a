"""Reads the configuration of a SparkContext with few calls of the JVM.

``SparkContext.getConf`` copies it: four calls for each entry, some hundred calls a copy, 0.1 ms each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext


def conf_of(sc: SparkContext) -> SparkConf:
    """The configuration itself, to read single keys; a copy only if PySpark does not keep it as expected."""
    conf: SparkConf = getattr(sc, "_conf", None) or sc.getConf()
    return conf


def entries_of(sc: SparkContext) -> dict[str, str]:
    """All entries, with a handful of calls of the JVM."""
    conf: Any = conf_of(sc)
    java = getattr(conf, "_jconf", None)
    if java is None:
        return dict(conf.getAll())
    # A value may contain any separator that is known beforehand.
    separator = uuid4().hex
    jvm: Any = sc._jvm
    text = str(jvm.scala.collection.mutable.ArraySeq.make(java.getAll()).mkString(separator))
    # Each is Scala's notation of a pair: (key,value).
    pairs = (entry[1:-1].partition(",") for entry in text.split(separator) if entry)
    return {key: value for key, _comma, value in pairs}
