"""Saves the configuration of a SparkContext in a checkpoint, and creates a SparkContext from it.

Secrets are not saved, nor are values that belong to one process (Spark's list). The new process's configuration
overrides the saved one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext

from penstock.errors import CheckpointError
from penstock.runtime.redaction import secret_names
from penstock.spark.spark_conf import PROGRESS, conf_here, entries_of

_NAME = "spark.app.name"
_OF_A_PROCESS = re.compile(
    r"spark\.(app\.(id|startTime|submitTime|initial\..*)|driver\.(host|bindAddress|port)|executor\.id|ui\.port"
    r"|blockManager\.port|kubernetes\.driver\.pod\.name|kubernetes\.executor\.podNamePrefix|yarn\.app\..*"
    r"|submit\..*|repl\..*|driver\.extraJavaOptions|executor\.extraJavaOptions)"
)
_OF_THE_LAUNCH = re.compile(r"spark\.(master|app\.name|driver\..*|jars(\..*)?|files|archives)")


def conf_to_save(sc: SparkContext) -> dict[str, str]:
    """The part of the configuration that a recovered run may need."""
    conf = entries_of(sc)
    names = secret_names(conf)
    return {key: value for key, value in conf.items() if not names.search(key) and not _OF_A_PROCESS.fullmatch(key)}


def current_conf() -> dict[str, str]:
    """The configuration of the active SparkContext, or else the one that this process was started with.

    Launches no JVM: the program's own configuration would then have no effect.
    """
    active = SparkContext._active_spark_context
    if active is not None:
        return entries_of(active)
    # spark-submit started this process, and its JVM is running.
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
    return {**_launch_conf(), **dict(SparkConf().getAll())}


def _launch_conf() -> dict[str, str]:
    """The configuration for launching a JVM here; empty if the JVM runs already, with its own configuration."""
    return {} if "PYSPARK_GATEWAY_PORT" in os.environ else conf_here()


def launched_as() -> str:
    """The application name at the launch of this process; empty if none was set."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return conf_here().get(_NAME, "")
    SparkContext._ensure_initialized()
    name = SparkConf().get(_NAME) or ""
    # Without a name spark-submit uses the name of the program's file.
    return "" if name == Path(sys.argv[0]).name else name


def check_name(application: str, launched: str) -> None:
    """Check that this process was not launched as another application.

    The code of the run that wrote the checkpoint may have changed the name at its launch, so both names are accepted.
    """
    name = launched_as()
    if name and name not in (application, launched):
        raise CheckpointError(
            f"the checkpoint belongs to the application {application!r}, but this process was launched as {name!r}: "
            f"launch it with --name {application!r}, or use another checkpoint directory"
        )


@contextmanager
def recovered_spark(saved: Mapping[str, str], application: str, launched: str) -> Iterator[SparkContext]:
    """The active SparkContext, or a new one of this application, which an error in the block stops."""
    if SparkContext._active_spark_context is not None:
        yield SparkContext._active_spark_context
        return
    check_name(application, launched)
    sc = spark_context(saved)
    try:
        yield sc
    except BaseException:
        sc.stop()
        raise


def spark_context(saved: Mapping[str, str]) -> SparkContext:
    """A new SparkContext with the saved configuration, overridden by the current one.

    The application's name is the saved one, because it identifies the owner of a checkpoint directory.
    """
    # Some keys take effect at the launch of the JVM only. They would override spark-defaults.conf and the command line,
    # so keys that are set there are omitted.
    configured = _launch_conf().keys() - {_NAME}
    launch = [(key, value) for key, value in saved.items() if _OF_THE_LAUNCH.fullmatch(key) and key not in configured]
    if PROGRESS not in configured:
        launch.append((PROGRESS, "false"))
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(launch))
    conf = SparkConf()
    for key, value in saved.items():
        conf.setIfMissing(key, value)
    if _NAME in saved:
        conf.setAppName(saved[_NAME])
    return SparkContext.getOrCreate(conf)


def hash_seed() -> str:
    """The hash seed of the Python workers, which decides the partitions of string keys."""
    # PySpark passes this to its workers.
    return os.environ.get("PYTHONHASHSEED", "0")
