"""A standalone cluster on this machine: a master and workers, whose executors start with each application."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen
from pyspark.find_spark_home import _find_spark_home
from tests.helpers.waiting import wait_for

from penstock_cli.java import ensure_java


@frozen
class Host:
    """Where a process of the cluster runs.

    Attributes:
        address: the address that it listens on.
        command: what precedes its command line.
        port: the port of a master or worker; 0 for any.
    """

    address: str
    command: tuple[str, ...] = ()
    port: int = 0


@contextmanager
def standalone_cluster(
    folder: Path,
    workers: int = 1,
    host: str = "127.0.0.1",
    environment: Mapping[str, str] | None = None,
    hosts: Sequence[Host] = (),
) -> Iterator[str]:
    """Start a cluster; yields the master's URL.

    Args:
        folder: of logs and of the applications' files.
        workers: each has two cores and 1 GB.
        host: the address that master and workers listen on.
        environment: of the workers, and so of executors, besides this process's.
        hosts: the master's, then one for each worker, in place of ``workers`` and ``host``.
    """
    ensure_java()
    started: list[subprocess.Popen[bytes]] = []
    of_master, *of_workers = hosts or [Host(host)] * (1 + workers)
    url_line = re.compile(rf"Starting Spark master at (spark://{re.escape(of_master.address)}:\d+)\s")

    def start(name: str, on: Host, *arguments: str | Path) -> Path:
        spark_class = Path(_find_spark_home()) / "bin" / "spark-class"
        where = ("--host", on.address, "--port", str(on.port), "--webui-port", "0")
        command = (*on.command, spark_class, f"org.apache.spark.deploy.{name}", *where, *arguments)
        log = folder / f"{name}-{len(started)}.log"
        with log.open("w") as said:
            own = {**os.environ, **(environment or {})}
            started.append(subprocess.Popen(command, stderr=said, start_new_session=True, env=own))
        return log

    try:
        log = start("master.Master", of_master)
        wait_for(lambda: url_line.search(log.read_text()), "the master listens", 120)
        (url,) = set(url_line.findall(log.read_text()))
        for number, each in enumerate(of_workers):
            work = folder / f"work-{number}"
            start("worker.Worker", each, "--cores", "2", "--memory", "1g", "--work-dir", work, url)
        yield url
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
        for process in started:
            # A killed process ends when it gets processor time.
            process.wait(60)
