"""A standalone cluster on this machine: a master and workers, whose executors start with each application."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home
from tests.helpers.waiting import wait_for

from penstock.launch.java import ensure_java


@contextmanager
def standalone_cluster(
    folder: Path, workers: int = 1, host: str = "127.0.0.1", environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Start a cluster; yields the master's URL.

    Args:
        folder: of logs and of the applications' files.
        workers: each has two cores and 1 GB.
        host: the address that master and workers listen on.
        environment: of the workers, and so of executors, besides this process's.
    """
    ensure_java()
    started: list[subprocess.Popen[bytes]] = []
    url_line = re.compile(rf"Starting Spark master at (spark://{re.escape(host)}:\d+)\s")

    def start(name: str, *arguments: str | Path) -> Path:
        spark_class = Path(_find_spark_home()) / "bin" / "spark-class"
        command = (spark_class, f"org.apache.spark.deploy.{name}", "--host", host, "--webui-port", "0", *arguments)
        log = folder / f"{name}-{len(started)}.log"
        with log.open("w") as said:
            own = {**os.environ, **(environment or {})}
            started.append(subprocess.Popen(command, stderr=said, start_new_session=True, env=own))
        return log

    try:
        log = start("master.Master", "--port", "0")
        wait_for(lambda: url_line.search(log.read_text()), "the master listens", 120)
        (url,) = set(url_line.findall(log.read_text()))
        for number in range(workers):
            work = folder / f"work-{number}"
            start("worker.Worker", "--cores", "2", "--memory", "1g", "--work-dir", work, url)
        yield url
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
