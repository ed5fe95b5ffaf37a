"""Options of every Spark that a test starts: Java options, the class archive that its JVMs load, and its Python daemon.

``python -m tests.helpers.java_options`` writes the archive: with it, a driver's start takes 4.3 s of processor time
instead of 6.8 s, and its first query another 3.3 s instead of 6.3 s. A JVM with another Java or another class path
ignores it, and tests run without it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

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
    """Run small jobs in a JVM that writes the classes it has loaded into an archive when it ends."""
    from pyspark import SparkConf, SparkContext

    from penstock_cli.java import ensure_java

    ensure_java()
    CONFIGURATION.mkdir(exist_ok=True)
    unfinished = ARCHIVE.with_suffix(".unfinished")
    os.environ.update(environment(f"-XX:ArchiveClassesAtExit={unfinished} -Xlog:disable", daemon=""))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf().setMaster("local[1]").setAppName("class archive").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false").set("spark.sql.shuffle.partitions", "1")
    sc = SparkContext(conf=conf)
    with tempfile.TemporaryDirectory() as folder:
        sc.setCheckpointDir(folder)
        pairs = sc.parallelize([("a", 1)], 1).groupByKey(1)
        pairs.checkpoint()
        pairs.collect()
        _query(sc)
        gateway: Any = sc._gateway
        sc.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(600)
    unfinished.replace(ARCHIVE)


def _query(sc: SparkContext) -> None:
    """Load the classes of DataFrames, as the tests use them: without compiled code, which would take twice as long."""
    from pyspark.sql import SparkSession

    spark = SparkSession(sc)
    spark.conf.set("spark.sql.adaptive.enabled", False)
    spark.conf.set("spark.sql.codegen.wholeStage", False)
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    lines = spark.createDataFrame(sc.parallelize([("a b", 1)], 1), "line string, number int")
    lines.mapInArrow(lambda batches: batches, lines.schema).createOrReplaceTempView("lines")
    words = spark.sql("SELECT explode(split(line, ' ')) AS word, number FROM lines")
    counts = words.where("number > 0").groupBy("word").agg({"*": "count", "number": "sum"})
    counts.join(words, "word").orderBy("word").collect()
    counts.take(1)


if __name__ == "__main__":
    write_archive()
