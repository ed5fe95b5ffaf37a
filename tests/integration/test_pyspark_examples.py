"""PySpark's own example programs run with only the import changed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from penstock.spark.java import ensure_java

pytestmark = pytest.mark.spark

EXAMPLES = Path(pyspark.__file__).parent / "examples" / "src" / "main" / "python" / "streaming"


class Program:
    """A program that runs, and what it has printed."""

    def __init__(self, path: Path, args: list[str]) -> None:
        self._out, self._errors = path.with_suffix(".out"), path.with_suffix(".errors")
        with self._out.open("w") as out, self._errors.open("w") as errors:
            self.process = subprocess.Popen([sys.executable, str(path), *args], stdout=out, stderr=errors)

    @property
    def lines(self) -> list[str]:
        """What it printed so far."""
        return self._out.read_text().splitlines()

    @property
    def errors(self) -> str:
        """What went to standard error so far."""
        return self._errors.read_text()


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Program]]:
    """Runs an example after changing its import."""
    ensure_java()
    # Two slots, as the programs take whatever the machine has: one for the receiver, one for batches.
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master local[2] --conf spark.ui.enabled=false pyspark-shell")
    running: list[Program] = []

    def run(name: str, *args: str) -> Program:
        source = (EXAMPLES / name).read_text()
        changed = source.replace("from pyspark.streaming import", "from penstock import")
        assert changed.count("from penstock import") == 1
        path = tmp_path / name
        path.write_text(changed)
        running.append(Program(path, list(args)))
        return running[-1]

    yield run
    for program in running:
        if program.process.poll() is None:
            os.kill(program.process.pid, signal.SIGTERM)
            program.process.wait(30)


def test_queue_stream(example: Callable[..., Program], wait_for: Callable[..., None]) -> None:
    program = example("queue_stream.py")
    assert program.process.wait(60) == 0, program.errors
    wait_for(lambda: sum(line.startswith("Time: ") for line in program.lines) >= 6, "six batches")
    # Five RDDs of the numbers 1 to 1000: each last digit a hundred times.
    assert program.lines.count("(0, 100)") == 5


def test_network_wordcount(example: Callable[..., Program], wait_for: Callable[..., None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = example("network_wordcount.py", "127.0.0.1", str(server.getsockname()[1]))
        server.settimeout(60)
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"to be or not to be\n")
            wait_for(lambda: "('be', 2)" in program.lines, "the first line's words", 60)
            connection.sendall("naïve question, naïve\n".encode())
            wait_for(lambda: "('naïve', 2)" in program.lines, "the second line's words", 60)
    assert "('to', 2)" in program.lines
