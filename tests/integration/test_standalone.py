"""A standalone cluster on this machine: master, worker, executor and driver talk as they would between hosts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home
from tests.helpers import wait_for
from tests.helpers.forked import run_module
from tests.helpers.shared_jvm import PYSPARKS_DAEMON, SharedJvm

from penstock.launch.java import ensure_java

pytestmark = [pytest.mark.spark, pytest.mark.programs]

_URL = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)\s")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of one worker."""
    ensure_java()
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str | Path) -> Path:
        spark_class = Path(_find_spark_home()) / "bin" / "spark-class"
        command = (spark_class, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0")
        log = tmp_path / f"{name}.log"
        with log.open("w") as said:
            started.append(subprocess.Popen([*command, *arguments], stderr=said, start_new_session=True))
        return log

    try:
        log = start("master.Master", "--port", "0")
        wait_for(lambda: _URL.search(log.read_text()), "the master listens", 120)
        (url,) = set(_URL.findall(log.read_text()))
        start("worker.Worker", "--cores", "2", "--memory", "1g", "--work-dir", tmp_path, url)
        yield url
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def test_blocks_of_a_standalone_executor_are_fetched_to_the_last_batch(
    master: str, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    shared_jvm.prepare(PYSPARKS_DAEMON)
    ran = run_module(
        "tests.integration.on_standalone",
        master,
        str(tmp_path / "notes"),
        cwd=Path(__file__).parents[2],
        env={**shared_jvm.environment, "PYSPARK_PYTHON": sys.executable},
    )
    assert ran.returncode == 0, ran.stdout
    report = next(json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{"))
    assert report["executor"] == "0"
    assert 0 < report["before the stop"] < len(report["seen"])
    assert report["seen"][: len(report["stored"])] == report["stored"]
    # The executor's process may have been killed before it could write the last one down, not before it stored it.
    assert report["seen"] == list(range(len(report["seen"])))
    assert report["stop took"] < 60
