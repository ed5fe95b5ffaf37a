"""The configuration of a SparkContext in a checkpoint, and a SparkContext from it.

Owns what is left out: secrets, and what belongs to one process (the list is Spark's). What the new process says wins.
Called on the program's thread.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext

from penstock.errors import CheckpointError
from penstock.launch.java import ensure_java
from penstock.launch.launch_conf import conf_here

_NAME = "spark.app.name"
# Spark's own rule (spark.redaction.regex).
_SECRET = re.compile(r"secret|password|passwd|token|credential|access[._]?key", re.IGNORECASE)
_OF_A_PROCESS = re.compile(
    r"spark\.(app\.(id|startTime|submitTime|initial\..*)|driver\.(host|bindAddress|port)|executor\.id|ui\.port"
    r"|blockManager\.port|kubernetes\.driver\.pod\.name|kubernetes\.executor\.podNamePrefix|yarn\.app\..*"
    r"|submit\..*|repl\..*|driver\.extraJavaOptions|executor\.extraJavaOptions)"
)
_OF_THE_LAUNCH = re.compile(r"spark\.(master|app\.name|driver\..*|jars(\..*)?|files|archives|ui\.showConsoleProgress)")


def conf_to_save(sc: SparkContext) -> dict[str, str]:
    """What a later run may need of the configuration."""
    pairs = sc.getConf().getAll()
    return {key: value for key, value in pairs if not _SECRET.search(key) and not _OF_A_PROCESS.fullmatch(key)}


def current_conf() -> dict[str, str]:
    """What is in force: of the SparkContext there is, else what this process was started with, as far as that is known.

    A JVM is not launched for it: the program's own configuration would come too late.

    Raises:
        ConfigurationError: what ``PYSPARK_SUBMIT_ARGS`` holds cannot be read.
    """
    active = SparkContext._active_spark_context
    if active is not None:
        return dict(active.getConf().getAll())
    # Started by spark-submit, which is such a JVM.
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
    return {**_said_here(), **dict(SparkConf().getAll())}


def _said_here() -> dict[str, str]:
    """What a JVM would be launched with from here; nothing where there is one already, which knows."""
    return {} if "PYSPARK_GATEWAY_PORT" in os.environ else conf_here()


def launched_as() -> str:
    """The application's name, as the launch of this process gives it; empty when it gives none."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return conf_here().get(_NAME, "")
    SparkContext._ensure_initialized()
    name = SparkConf().get(_NAME) or ""
    # Without one spark-submit takes that of the program's file.
    return "" if name == Path(sys.argv[0]).name else name


def check_name(application: str, launched: str) -> None:
    """Check that this process is not launched as another application.

    Args:
        application: the name of that which it is to go on with.
        launched: as which that one was launched; its code may have given it another name.

    Raises:
        CheckpointError: it is; whether its code names it so, too, that code knows.
    """
    name = launched_as()
    if name and name not in (application, launched):
        raise CheckpointError(f"it is of the application {application!r}, and this process was launched as {name!r}")


def spark_context(saved: Mapping[str, str]) -> SparkContext:
    """The SparkContext there is; else one of the saved configuration, where the current one says nothing.

    The name is the saved one: by it a checkpoint directory belongs to the application.
    """
    if SparkContext._active_spark_context is not None:
        return SparkContext._active_spark_context
    ensure_java()
    # The JVM is launched with what would come too late afterwards, and with what the launcher has its own default for.
    # It would win over the files of defaults: what they say, or the command line does, is left out.
    said = _said_here().keys() - {_NAME}
    launch = [(key, value) for key, value in saved.items() if _OF_THE_LAUNCH.fullmatch(key) and key not in said]
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(launch))
    conf = SparkConf()
    for key, value in saved.items():
        conf.setIfMissing(key, value)
    if _NAME in saved:
        conf.setAppName(saved[_NAME])
    return SparkContext.getOrCreate(conf)


def hash_seed() -> str:
    """By which Python's workers hash strings, and so partition."""
    # As PySpark gives it to them.
    return os.environ.get("PYTHONHASHSEED", "0")
