"""Programs on a standalone cluster whose Python has nothing installed: packed, stopped, with an executor lost."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from pyspark.find_spark_home import _find_spark_home
from tests.faults.clusters.running import Running, properties
from tests.helpers import wait_for
from tests.helpers.standalone import standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.programs, pytest.mark.usefixtures("pysparks_daemon")]

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("cluster_program.py")
# Loopback addresses apart from 127.0.0.1, which stands for what other hosts do not reach.
DRIVER, WORKERS = "127.0.0.2", "127.0.0.3"


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python of the same version in which nothing is installed."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    python = str(folder / "bin" / "python")
    assert subprocess.run([python, "-c", "import penstock"], capture_output=True, check=False).returncode != 0
    return python


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `penstock pack` makes of the core."""
    path = tmp_path_factory.mktemp("packed") / "penstock.tar.gz"
    command: list[str | Path] = ["pack", "--output", path, "--exclude", "pandas", "--exclude", "numpy", "socket"]
    subprocess.run([sys.executable, "-m", "penstock", *command], check=True, timeout=120)
    return path


def free_ports(count: int) -> Iterator[int]:
    """Ports that are free, and a few after each of them."""
    for first in range(21_000, 29_000, 50):
        with closing(socket.socket()) as probe:
            if count and probe.connect_ex(("127.0.0.1", first)):
                count -= 1
                yield first


def executor_jvm(executor_id: str) -> psutil.Process:
    """The process of an executor."""
    found: dict[str, psutil.Process] = {}
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if "--executor-id" in command and f"Worker@{WORKERS}:" in " ".join(command):
            found[command[command.index("--executor-id") + 1]] = process
    return found[executor_id]


def listening(roots: list[psutil.Process]) -> set[tuple[str, int]]:
    """The addresses and ports on which processes and their children listen."""
    found: set[tuple[str, int]] = set()
    for process in [each for root in roots for each in (root, *root.children(recursive=True))]:
        for each in process.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN:
                found.add((each.laddr.ip.removeprefix("::ffff:"), each.laddr.port))
    return found


def firewall_keys() -> list[str]:
    """The keys of the ports in the firewall table."""
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.partition("## Firewall")[2].partition("\n## ")[0].splitlines()]
    return [key for row in rows if len(row) > 4 for key in re.findall(r"`(spark\.[\w.]*port)`", row[3], re.IGNORECASE)]


def test_packed_program_survives_its_executor_and_stops_gracefully(
    tmp_path: Path, bare_python: str, archive: Path
) -> None:
    keys = firewall_keys()
    ports = dict(zip(keys, map(str, free_ports(len(keys))), strict=True))
    conf = properties(tmp_path, {"spark.driver.host": DRIVER, "spark.driver.bindAddress": DRIVER, **ports})
    with standalone_cluster(tmp_path, workers=2, host=WORKERS) as url:
        command: list[str | Path] = [
            "--master",
            url,
            "--name",
            "packed",
            "--archives",
            archive,
            "--properties-file",
            conf,
        ]
        program: list[str | Path] = [PROGRAM, tmp_path / "notes", tmp_path / "checkpoint"]
        running = Running([sys.executable, "-m", "penstock", "run", *command, *program], tmp_path, bare_python)
        try:
            (first,) = running.await_line(r"receiver on (\d+)")
            notes = tmp_path / "notes"
            wait_for(lambda: notes.exists() and len(notes.read_text().split()) > 100, "numbers are stored", 120)
            executors = [executor_jvm(each) for each in ("0", "1")]
            opened = listening([psutil.Process(running.process.pid), *executors])
            executor_jvm(first).kill()
            second = running.await_line(r"receiver on (\d+)", 2)[-1]
            stored = len(notes.read_text().split())
            wait_for(lambda: len(notes.read_text().split()) > stored + 100, "numbers are stored again", 120)
            report = running.stop()
        finally:
            running.close()
    assert second != first
    # By the tracker, or by Spark's retry of the task, which comes first where a slot is free.
    assert re.search(
        rf"error: (the executor {first} on {WORKERS} is lost|the receiver's task)", running.output.read_text()
    )
    assert (report["name"], report["shown"]) == ("packed", 0)
    numbers = [int(line) for line in (tmp_path / "notes").read_text().split()]
    seen = report["seen"]
    assert isinstance(seen, list)
    # Noted after it was stored: the last one before the executor was killed, and before the stop, may not be.
    assert set(numbers) <= set(seen)
    assert len(seen) <= len(numbers) + 2
    assert report["counts"] == dict(Counter(f"word {number % 3}" for number in seen))
    # The firewall table: each of its ports is open, and no other, but for those that only this host reaches.
    fixed = {port + more for port in map(int, ports.values()) for more in range(17)}
    assert {str(port) for _address, port in opened} >= set(ports.values())
    assert {each for each in opened if each[1] not in fixed and each[0] not in ("127.0.0.1", "::1")} == set()


def test_plain_spark_submit_runs_and_stops_gracefully(tmp_path: Path, bare_python: str, archive: Path) -> None:
    conf = properties(tmp_path, {"spark.driver.host": DRIVER, "spark.ui.enabled": "false"})
    spark_submit = Path(_find_spark_home()) / "bin" / "spark-submit"
    with standalone_cluster(tmp_path, host=WORKERS) as url:
        command: list[str | Path] = ["--master", url, "--properties-file", conf, "--archives", f"{archive}#penstock"]
        command += ["--conf", "spark.executorEnv.PYTHONPATH=./penstock"]
        program: list[str | Path] = [PROGRAM, tmp_path / "notes", tmp_path / "checkpoint"]
        running = Running([spark_submit, *command, *program], tmp_path, bare_python)
        try:
            running.await_line(r"receiver on (\d+)")
            notes = tmp_path / "notes"
            wait_for(lambda: notes.exists() and len(notes.read_text().split()) > 100, "numbers are stored", 120)
            # It reaches the JVM, whose child the program is.
            report = running.stop()
        finally:
            running.close()
    numbers, seen = [int(line) for line in notes.read_text().split()], report["seen"]
    assert isinstance(seen, list)
    assert seen[: len(numbers)] == numbers
    assert len(seen) <= len(numbers) + 1


def test_executor_without_penstock_is_reported_with_host_and_remedy(tmp_path: Path, bare_python: str) -> None:
    conf = properties(
        tmp_path,
        {
            "spark.ui.enabled": "false",
            "spark.penstock.receiver.maxRestarts": "0",
            "spark.penstock.receiver.onFailure": "fail-application",
        },
    )
    command: list[str | Path] = ["run", "--master", "local[2]", "--properties-file", conf]
    # A batch that lacks the module, too, would end the program before the receiver's error is reported.
    program: list[str | Path] = [PROGRAM, tmp_path / "notes", tmp_path / "checkpoint", "uncounted"]
    running = Running([sys.executable, "-m", "penstock", *command, *program], tmp_path, bare_python)
    try:
        assert running.process.wait(240) == 1
    finally:
        running.close()
    lacks = r"the Python of executor driver on \S+ lacks the module 'penstock\S*': install it there"
    assert re.search(lacks, running.output.read_text())
    assert re.search(lacks, running.errors.read_text())
