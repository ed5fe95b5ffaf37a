"""PySpark's own example programs run with only the import changed."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyspark
import pytest
from tests.dataframes.conftest import FRUGAL
from tests.helpers.forked import Fork
from tests.helpers.shared_jvm import SharedJvm

pytestmark = [pytest.mark.spark, pytest.mark.programs]

EXAMPLES = Path(pyspark.__file__).parent / "examples" / "src" / "main" / "python" / "streaming"


class Program:
    """A program that runs, and what it has printed."""

    def __init__(self, path: Path, args: list[str], environment: dict[str, str]) -> None:
        self._out, self._errors = path.with_suffix(".out"), path.with_suffix(".errors")
        self.process = Fork(path, args, cwd=path.parent, env=environment, stdout=self._out, stderr=self._errors)

    @property
    def lines(self) -> list[str]:
        """What it printed so far."""
        return self._out.read_text().splitlines()

    @property
    def errors(self) -> str:
        """What went to standard error so far."""
        return self._errors.read_text()


@pytest.fixture
def example(shared_jvm: SharedJvm) -> Iterator[Callable[..., Program]]:
    """Runs an example after changing its import; ends the one before."""
    running: list[Program] = []

    def end_last() -> None:
        if running:
            running[-1].process.send_signal(signal.SIGTERM)
            running[-1].process.wait(30)

    def run(name: str, *args: str, configuration: Mapping[str, str] | None = None) -> Program:
        source = (EXAMPLES / name).read_text()
        changed = source.replace("from pyspark.streaming import", "from penstock import")
        assert changed.count("from penstock import") == 1
        path = shared_jvm.folder / f"{len(running)}-{name}"
        path.write_text(changed)
        end_last()
        # Two slots, as the programs take whatever the machine has: one for the receiver, one for batches.
        chosen = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.streaming.gracefulStopTimeout": "100s",
        }
        shared_jvm.prepare(chosen | dict(configuration or {}))
        running.append(Program(path, list(args), shared_jvm.environment))
        return running[-1]

    yield run
    end_last()
    shared_jvm.prepare({})


def test_queue_stream(example: Callable[..., Program], wait_for: Callable[..., None]) -> None:
    program = example("queue_stream.py")
    assert program.process.wait(120) == 0, program.errors
    wait_for(lambda: sum(line.startswith("Time: ") for line in program.lines) >= 6, "six batches")
    # Five RDDs of the numbers 1 to 1000: each last digit a hundred times.
    assert program.lines.count("(0, 100)") == 5


class Server:
    """A server that the examples connect to."""

    def __init__(self, socket: socket.socket) -> None:
        self._socket = socket
        self.address = ("127.0.0.1", str(socket.getsockname()[1]))

    def accept(self) -> socket.socket:
        """The example's connection."""
        connection, _ = self._socket.accept()
        connection.settimeout(120)
        return connection


@pytest.fixture
def server() -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(120)
        yield Server(listening)


def test_network_wordcount(example: Callable[..., Program], server: Server, wait_for: Callable[..., None]) -> None:
    program = example("network_wordcount.py", *server.address)
    with server.accept() as connection:
        connection.sendall(b"to be or not to be\n")
        wait_for(lambda: "('be', 2)" in program.lines, "the first line's words", 120)
        connection.sendall("naïve question, naïve\n".encode())
        wait_for(lambda: "('naïve', 2)" in program.lines, "the second line's words", 120)
    assert "('to', 2)" in program.lines


def test_hdfs_wordcount(example: Callable[..., Program], tmp_path: Path, wait_for: Callable[..., None]) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    program = example("hdfs_wordcount.py", str(folder))
    wait_for(lambda: any(line.startswith("Time: ") for line in program.lines), "a batch", 120)
    (tmp_path / "one").write_text("to be or\nnot to be\n")
    (tmp_path / "one").rename(folder / "one.txt")
    wait_for(lambda: "('be', 2)" in program.lines, "the first file's words", 120)
    (tmp_path / "two").write_text("naïve, naïve")
    (tmp_path / "two").rename(folder / "two.txt")
    wait_for(lambda: "('naïve,', 1)" in program.lines, "the second file's words", 120)
    assert program.lines.count("('be', 2)") == 1


def test_sql_network_wordcount(example: Callable[..., Program], server: Server, wait_for: Callable[..., None]) -> None:
    # The program makes the SparkSession: its plans need not be compiled.
    program = example("sql_network_wordcount.py", *server.address, configuration=FRUGAL)
    with server.accept() as connection:
        connection.sendall(b"to be or not to be\n")
        wait_for(lambda: "|  be|    2|" in program.lines, "the line's words, counted by SQL", 120)


def test_network_wordjoinsentiments(
    example: Callable[..., Program], server: Server, shared_jvm: SharedJvm, wait_for: Callable[..., None]
) -> None:
    # The program splits at spaces; the list that comes with PySpark has tabs.
    listed = (Path(pyspark.__file__).parent / "data" / "streaming" / "AFINN-111.txt").read_text()
    data = shared_jvm.folder / "data" / "streaming"
    data.mkdir(parents=True)
    (data / "AFINN-111.txt").write_text(listed.replace("\t", " "))
    program = example("network_wordjoinsentiments.py", *server.address)
    with server.accept() as connection:
        connection.sendall(b"good news and bad news and good\n")
        wait_for(lambda: "bad (-3 happiness)" in program.lines, "the happiest words", 120)
    happiest = program.lines.index("good (6 happiness)")
    assert program.lines[happiest - 1 : happiest + 2] == [
        "Happiest topics in the last 5 seconds (2 total):",
        "good (6 happiness)",
        "bad (-3 happiness)",
    ]
