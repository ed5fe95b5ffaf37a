"""The configuration of a SparkContext in a checkpoint, and a SparkContext from it.

Owns what is left out: secrets, and what belongs to one process (the list is Spark's). What the new process says wins.
Called on the program's thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext

from penstock.spark.java import ensure_java

# Spark's own rule (spark.redaction.regex).
_SECRET = re.compile(r"secret|password|passwd|token|credential|access[._]?key", re.IGNORECASE)
_OF_A_PROCESS = re.compile(
    r"spark\.(app\.(id|startTime|submitTime|initial\..*)|driver\.(host|bindAddress|port)|executor\.id|ui\.port"
    r"|blockManager\.port|kubernetes\.driver\.pod\.name|kubernetes\.executor\.podNamePrefix|yarn\.app\..*"
    r"|submit\..*|repl\..*|driver\.extraJavaOptions|executor\.extraJavaOptions)"
)


def conf_to_save(sc: SparkContext) -> dict[str, str]:
    """What a later run may need of the configuration."""
    pairs = sc.getConf().getAll()
    return {key: value for key, value in pairs if not _SECRET.search(key) and not _OF_A_PROCESS.fullmatch(key)}


def current_conf() -> dict[str, str]:
    """What is in force: of the SparkContext there is, else what one would be made with."""
    active = SparkContext._active_spark_context
    if active is not None:
        return dict(active.getConf().getAll())
    ensure_java()
    return dict(SparkConf().getAll())


def spark_context(saved: Mapping[str, str]) -> SparkContext:
    """The SparkContext there is; else one of the saved configuration, where the current one says nothing."""
    ensure_java()
    conf = SparkConf()
    for key, value in saved.items():
        conf.setIfMissing(key, value)
    return SparkContext.getOrCreate(conf)


def hash_seed() -> str:
    """By which Python's workers hash strings, and so partition."""
    # As PySpark gives it to them.
    return os.environ.get("PYTHONHASHSEED", "0")
