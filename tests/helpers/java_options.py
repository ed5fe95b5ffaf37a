"""Options of every Spark that a test starts: Java options, the class archive that its JVMs load, and its Python daemon.

``python -m tests.helpers.java_options`` writes the archive: with it, a driver's start takes 4.3 s of processor time
instead of 6.8 s. A JVM with another Java or another class path ignores it, and tests run without it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(sys.prefix, "spark.jsa")
# Spark's configuration directory, the first entry of each JVM's class path. To use the archive it has to be the
# directory that the archive was written with, and empty. Without an archive it need not exist.
CONFIGURATION = Path(sys.prefix, "spark_conf")
# The second compiler and a collector with many threads cost more processor time than they save within a minute.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# tests/daemon/frugal_daemon.py
DAEMON_FOLDER = Path(__file__).parents[1] / "daemon"
DAEMON = f"-Dspark.python.daemon.module=frugal_daemon -Dspark.executorEnv.PYTHONPATH={DAEMON_FOLDER}"


def environment(archive_option: str | None = None, daemon: str = DAEMON) -> dict[str, str]:
    """Environment variables that pass the options to drivers and executors.

    Args:
        archive_option: by default the one that loads the archive, if it exists.
        daemon: the options of the daemon that forks Python workers; empty for PySpark's own.
    """
    if archive_option is None:
        # Without -Xlog:disable, a JVM that cannot use the archive prints that on standard output.
        archive_option = f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else ""
    options = f"{OPTIONS} {archive_option}".strip()
    return {
        "SPARK_CONF_DIR": str(CONFIGURATION),
        "SPARK_SUBMIT_OPTS": f'{options} {daemon} "-Dspark.executor.extraJavaOptions={options}"',
        # Not drivers and executors, but what starts them.
        "SPARK_LAUNCHER_OPTS": OPTIONS,
        "SPARK_DAEMON_JAVA_OPTS": options,
    }


def write_archive() -> None:
    """Run a small job in a JVM that writes the classes it has loaded into an archive when it ends."""
    from pyspark import SparkConf, SparkContext

    from penstock.launch.java import ensure_java

    ensure_java()
    CONFIGURATION.mkdir(exist_ok=True)
    unfinished = ARCHIVE.with_suffix(".unfinished")
    os.environ.update(environment(f"-XX:ArchiveClassesAtExit={unfinished} -Xlog:disable", daemon=""))
    conf = SparkConf().setMaster("local[1]").setAppName("class archive").set("spark.ui.enabled", "false")
    sc = SparkContext(conf=conf.set("spark.ui.showConsoleProgress", "false"))
    with tempfile.TemporaryDirectory() as checkpoints:
        sc.setCheckpointDir(checkpoints)
        pairs = sc.parallelize([("a", 1)], 1).groupByKey(1)
        pairs.checkpoint()
        pairs.collect()
        gateway: Any = sc._gateway
        sc.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)
    unfinished.replace(ARCHIVE)


if __name__ == "__main__":
    write_archive()
