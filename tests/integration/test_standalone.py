"""A standalone cluster on this machine: master, worker, executor and driver talk as they would between hosts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from penstock.launch.java import ensure_java

pytestmark = [pytest.mark.spark, pytest.mark.faults]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of one worker."""
    ensure_java()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    spark_class = Path(_find_spark_home()) / "bin" / "spark-class"
    host = ("--host", "127.0.0.1", "--webui-port", "0")
    commands = (
        ("org.apache.spark.deploy.master.Master", *host, "--port", str(port)),
        ("org.apache.spark.deploy.worker.Worker", *host, "--cores", "2", "--memory", "1g", "--work-dir", tmp_path, url),
    )
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (tmp_path / f"{len(started)}.log").open("w") as said:
                started.append(subprocess.Popen([spark_class, *command], stderr=said, start_new_session=True))
            deadline = time.monotonic() + 60
            while len(started) == 1 and not _answers(port):
                assert time.monotonic() < deadline, (tmp_path / "0.log").read_text()
                time.sleep(0.1)
        yield url
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def test_blocks_of_a_standalone_executor_are_fetched_to_the_last_batch(master: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.integration.on_standalone", master, tmp_path / "notes"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads(ran.stdout.splitlines()[-1])
    assert report["executor"] == "0"
    assert 0 < report["before the stop"] < len(report["seen"])
    assert report["seen"][: len(report["stored"])] == report["stored"]
    # The executor's process may have been killed before it could write the last one down, not before it stored it.
    assert report["seen"] == list(range(len(report["seen"])))
    assert report["stop took"] < 15
