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
from tests.helpers import java_options, wait_for
from tests.helpers.standalone import standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.programs, pytest.mark.usefixtures("pysparks_daemon")]

ROOT = Path(__file__).parents[3]
PROGRAM, PLUGIN_PROGRAM = (Path(__file__).with_name(f"{name}_program.py") for name in ("cluster", "plugin"))
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
    subprocess.run([sys.executable, "-m", "penstock_cli", *command], check=True, timeout=120)
    return path


@pytest.fixture(scope="module")
def one_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster of one worker, for one program at a time."""
    # A fixture of this scope is not surrounded by ``pysparks_daemon``.
    environment = java_options.environment(daemon="")
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), host=WORKERS, environment=environment) as url:
        yield url


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


def worker_of(executor_id: str, folder: Path) -> str:
    """The directory of the worker that runs, or ran, an executor."""
    (path,) = folder.glob(f"work-*/app-*/{executor_id}")
    return path.parents[1].name


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
        running = Running([sys.executable, "-m", "penstock_cli", "run", *command, *program], tmp_path, bare_python)
        try:
            (first,) = running.await_line(r"receiver on (\d+)")
            notes = tmp_path / "notes"
            wait_for(lambda: notes.exists() and len(notes.read_text().split()) > 100, "numbers are stored", 120)
            executors = [executor_jvm(each) for each in ("0", "1")]
            opened = listening([psutil.Process(running.process.pid), *executors])
            # With its worker, which would start another one in its place.
            for process in (executors[int(first)].parent(), executors[int(first)]):
                assert process is not None
                process.kill()
            second = running.await_line(r"receiver on (\d+)", 2)[-1]
            stored = len(notes.read_text().split())
            wait_for(lambda: len(notes.read_text().split()) > stored + 100, "numbers are stored again", 120)
            report = running.stop()
        finally:
            running.close()
    assert {worker_of(first, tmp_path), worker_of(second, tmp_path)} == {"work-0", "work-1"}
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
    # Both workers computed batches, with what was packed.
    places = report["places"]
    assert isinstance(places, list)
    assert {Path(place).relative_to(tmp_path).parts[0] for place in places} == {"work-0", "work-1"}
    assert (tmp_path / "notes.plugins").read_text() == "socket"
    # The firewall table: each of its ports is open, and no other, but for those that only this host reaches.
    fixed = {port + more for port in map(int, ports.values()) for more in range(17)}
    assert {str(port) for _address, port in opened} >= set(ports.values())
    assert {each for each in opened if each[1] not in fixed and each[0] not in ("127.0.0.1", "::1")} == set()


def submitted(conf: Path, url: str, archive: Path) -> list[str | Path]:
    """A command of Spark's own that runs a program with an archive."""
    command: list[str | Path] = [Path(_find_spark_home()) / "bin" / "spark-submit", "--master", url]
    command += ["--properties-file", conf, "--archives", f"{archive}#penstock"]
    return [*command, "--conf", "spark.executorEnv.PYTHONPATH=./penstock"]


def test_plain_spark_submit_runs_with_a_file_of_the_program_and_stops_gracefully(
    tmp_path: Path, one_worker: str, bare_python: str, archive: Path
) -> None:
    conf = properties(tmp_path, {"spark.driver.host": DRIVER, "spark.ui.enabled": "false"})
    own = tmp_path / "own" / "acme_words.py"
    own.parent.mkdir()
    own.write_text("def word(number):\n    return f'acme {number % 2}'\n")
    command = [*submitted(conf, one_worker, archive), "--py-files", own]
    program: list[str | Path] = [PROGRAM, tmp_path / "notes", tmp_path / "checkpoint", own.stem]
    running = Running([*command, *program], tmp_path, bare_python)
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
    assert report["counts"] == dict(Counter(f"acme {number % 2}" for number in seen))


# What ends a program at the first error of its receiver.
STRICT = {
    "spark.ui.enabled": "false",
    "spark.penstock.receiver.maxRestarts": "0",
    "spark.penstock.receiver.onFailure": "fail-application",
}


def test_executor_without_a_plugin_is_reported_with_plugin_host_and_remedy(
    tmp_path: Path, one_worker: str, bare_python: str, archive: Path
) -> None:
    conf = properties(
        tmp_path, {**STRICT, "spark.driver.host": DRIVER, "spark.streaming.receiver.writeAheadLog.enable": "false"}
    )
    followed = tmp_path / "lines.txt"
    followed.touch()
    running = Running([*submitted(conf, one_worker, archive), PLUGIN_PROGRAM, followed], tmp_path, bare_python)
    try:
        assert running.process.wait(240) == 1
    finally:
        running.close()
    lacks = rf"the Python of executor \d+ on {WORKERS} lacks penstock-file \S+: install it there.*--archives"
    # spark-submit writes both outputs of a program to its own standard output.
    assert re.search(lacks, running.output.read_text())


def test_executor_without_penstock_is_reported_with_host_and_remedy(tmp_path: Path, bare_python: str) -> None:
    conf = properties(tmp_path, STRICT)
    command: list[str | Path] = ["run", "--master", "local[2]", "--properties-file", conf]
    # A batch that lacks the module, too, would end the program before the receiver's error is reported.
    program: list[str | Path] = [PROGRAM, tmp_path / "notes", tmp_path / "checkpoint", "uncounted"]
    running = Running([sys.executable, "-m", "penstock_cli", *command, *program], tmp_path, bare_python)
    try:
        assert running.process.wait(240) == 1
    finally:
        running.close()
    lacks = r"the Python of executor driver on \S+ lacks the module 'penstock\S*': install it there"
    assert re.search(lacks, running.output.read_text())
    assert re.search(lacks, running.errors.read_text())
